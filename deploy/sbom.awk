# Turns the output of "go version -m BINARY" into a bill of materials in the JSON form of CycloneDX 1.6. Give the
# version of the product with -v version=VERSION. Equal binaries give equal bytes: there is no time and no serial number.

$1 == "mod" { product = $2 }
$1 == "dep" { name[++n] = $2; release[n] = $3 }
$1 == "=>" { name[n] = $2; release[n] = $3 }
NR == 1 { compiler = $2; sub(/^go/, "", compiler) }

function component(type, name, version, purl) {
	return sprintf("{\"type\": \"%s\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"%s@%s\"}", type, name, version, purl, version)
}

END {
	print "{"
	print "  \"bomFormat\": \"CycloneDX\","
	print "  \"specVersion\": \"1.6\","
	print "  \"version\": 1,"
	printf "  \"metadata\": {\"component\": %s},\n", component("application", product, version, "pkg:golang/" product)
	print "  \"components\": ["
	for (i = 1; i <= n; i++) printf "    %s,\n", component("library", name[i], release[i], "pkg:golang/" name[i])
	printf "    %s\n", component("library", "std", compiler, "pkg:golang/std")
	print "  ]"
	print "}"
}
