package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
)

func TestEveryVendoredFileIsListedAndAsPublished(t *testing.T) {
	data, err := files.ReadFile("vendor/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var listed []struct{ Package, Version, License, File, Upstream, SHA256 string }
	if err := json.Unmarshal(data, &listed); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"vendor/manifest.json": ""}
	for _, l := range listed {
		if l.Package == "" || l.Version == "" || l.License == "" || l.Upstream == "" || !strings.HasPrefix(l.File, l.Package+"-"+l.Version+"/") {
			t.Errorf("incomplete: %+v", l)
		}
		known["vendor/"+l.File] = l.SHA256
	}
	err = fs.WalkDir(files, "vendor", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want, ok := known[name]
		if !ok {
			t.Errorf("%s is not listed", name)
		}
		delete(known, name)
		data, err := files.ReadFile(name)
		if sum := sha256.Sum256(data); want != "" && hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s differs from the list", name)
		}
		return err
	})
	if err != nil || len(known) > 0 {
		t.Errorf("%v; listed but missing: %v", err, known)
	}
}

func TestThePageIsSmallAndHasNoInlineCode(t *testing.T) {
	a := page()
	size := len(a.index.packed)
	for name, file := range a.byPath {
		size += len(file.packed)
		if strings.Contains(string(file.plain), "innerHTML =") && strings.HasPrefix(name, "page/") {
			t.Errorf("%s sets markup", name)
		}
	}
	if size > 150<<10 {
		t.Errorf("the page has %d bytes, compressed", size)
	}
	index := string(a.index.plain)
	if strings.Count(index, "<script") != strings.Count(index, "src=")+1 || strings.Contains(index, " style=") || strings.Contains(index, "{{") {
		t.Errorf("the page has inline code:\n%s", index)
	}
}
