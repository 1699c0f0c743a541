package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// documented adds to a tool of documented shape its description and schema, so that it can be offered to another
// provider's model as a function. The schemas are those of the calls' action or operation (docs/wire/responses.md#3). A
// computer tool has none, because its use does not fit one call.
func documented(t *codec.Tool) {
	switch string(t.Name) {
	case nameLocalShell:
		t.Description = []byte("Runs one command on the user's machine, without a shell around it, and returns its output.")
		t.Schema = localShellSchema
	case nameShell:
		t.Description = []byte("Runs shell commands on the user's machine and returns the output of each.")
		t.Schema = shellSchema
	case nameApplyPatch:
		t.Description = []byte("Creates, changes or deletes one file. The diff is in V4A form: context lines begin with a blank, lines to remove with -, lines to add with +, and each hunk begins with @@.")
		t.Schema = applyPatchSchema
	}
}

var (
	localShellSchema = []byte(`{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"}},"required":["command"]}`)
	shellSchema      = []byte(`{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},"timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},"required":["commands"]}`)
	applyPatchSchema = []byte(`{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},"diff":{"type":"string"}},"required":["type","path"]}`)
)

// clientCallShape returns the type of item that the client expects for a call of that name, if the request declared it
// as a tool of documented shape; empty for an ordinary call.
func clientCallShape(r *codec.Request, name []byte) string {
	if r == nil {
		return ""
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Origin != codec.Responses || string(t.WireType) == "function" || !bytes.Equal(t.Name, name) {
			continue
		}
		switch string(t.WireType) {
		case nameLocalShell, nameShell, nameApplyPatch, nameToolSearch:
			return string(t.WireType)
		}
	}
	return ""
}

// clientCallMembers writes the members of a call of documented shape after its id, and returns the id's prefix.
// arguments is a valid object.
func clientCallMembers(dst []byte, shape string, callID, arguments []byte) (prefix string, members []byte) {
	var open, end string
	switch shape {
	case nameLocalShell:
		prefix, open, end = "lsh_", `,"type":"local_shell_call","action":{"type":"exec"`, `}`
	case nameShell:
		prefix, open, end = "sh_", `,"type":"shell_call","action":{`, `}`
	case nameApplyPatch:
		prefix, open, end = "apc_", `,"type":"apply_patch_call","operation":{`, `}`
	default:
		prefix, open, end = "tsc_", `,"type":"tool_search_call","execution":"client","arguments":{`, `}`
	}
	dst = append(dst, open...)
	first, environment := shape != nameLocalShell, false
	for m := scan.Object(arguments); m.Next(); {
		switch {
		case shape != nameLocalShell:
		case string(m.Key) == "type":
			continue
		case string(m.Key) == "env":
			environment = true
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendFlat(dst, arguments[m.Start:m.End])
	}
	if shape == nameLocalShell && !environment {
		dst = append(dst, `,"env":{}`...) // required there
	}
	dst = append(dst, end...)
	dst = append(dst, `,"status":"completed","call_id":`...)
	dst = scan.QuoteBody(dst, callID)
	return prefix, append(dst, '}')
}
