package messages

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
)

// clientTools are the typed tools that the client runs. This format's models know them by their type; other models need
// a description and the arguments.
var clientTools = [...]struct {
	stem                []byte
	description, schema []byte // string body; raw
}{
	{
		stem:        []byte("bash_"),
		description: []byte(`Runs a command in a bash session that stays open between calls.`),
		schema: []byte(`{"type":"object","properties":{` +
			`"command":{"type":"string","description":"The command to run."},` +
			`"restart":{"type":"boolean","description":"Start the session anew instead of running a command."}}}`),
	},
	{
		stem:        []byte("text_editor_"),
		description: []byte(`Views and edits text files.`),
		schema: []byte(`{"type":"object","properties":{` +
			`"command":{"type":"string","enum":["view","create","str_replace","insert"]},` +
			`"path":{"type":"string","description":"File or directory."},` +
			`"view_range":{"type":"array","items":{"type":"integer"},"description":"view: first and last line, counted from 1; -1 is the end."},` +
			`"file_text":{"type":"string","description":"create: the whole text of the file."},` +
			`"old_str":{"type":"string","description":"str_replace: text that occurs exactly once."},` +
			`"new_str":{"type":"string","description":"str_replace and insert: the text to put in."},` +
			`"insert_line":{"type":"integer","description":"insert: the line after which to insert; 0 is the beginning."},` +
			`"insert_text":{"type":"string","description":"insert: the text to put in."}},` +
			`"required":["command","path"]}`),
	},
	{
		stem:        []byte("memory_"),
		description: []byte(`Reads and writes files that are kept between conversations, below /memories.`),
		schema: []byte(`{"type":"object","properties":{` +
			`"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},` +
			`"path":{"type":"string"},` +
			`"view_range":{"type":"array","items":{"type":"integer"}},` +
			`"file_text":{"type":"string"},` +
			`"old_str":{"type":"string"},` +
			`"new_str":{"type":"string"},` +
			`"insert_line":{"type":"integer"},` +
			`"insert_text":{"type":"string"},` +
			`"old_path":{"type":"string"},` +
			`"new_path":{"type":"string"}},` +
			`"required":["command"]}`),
	},
	{
		stem:        []byte("computer_20"),
		description: []byte(`Uses the screen, mouse and keyboard of a computer. Coordinates are pixels from the top left corner.`),
		schema: []byte(`{"type":"object","properties":{` +
			`"action":{"type":"string","enum":["key","type","mouse_move","left_click","left_click_drag","right_click","middle_click",` +
			`"double_click","triple_click","screenshot","cursor_position","left_mouse_down","left_mouse_up","scroll","hold_key","wait","zoom"]},` +
			`"coordinate":{"type":"array","items":{"type":"integer"},"description":"x and y."},` +
			`"start_coordinate":{"type":"array","items":{"type":"integer"}},` +
			`"text":{"type":"string","description":"Text to type, or the keys to press."},` +
			`"scroll_direction":{"type":"string","enum":["up","down","left","right"]},` +
			`"scroll_amount":{"type":"integer"},` +
			`"duration":{"type":"number","description":"Seconds."},` +
			`"region":{"type":"array","items":{"type":"integer"},"description":"zoom: x0, y0, x1, y1."}},` +
			`"required":["action"]}`),
	},
}

// describeClientTool sets the description and the schema of a client's tool by its type. Toolsets, whose members are
// separate tools, have none.
func describeClientTool(t *codec.Tool) {
	for i := range clientTools {
		known := &clientTools[i]
		if !bytes.HasPrefix(t.WireType, known.stem) {
			continue
		}
		t.Schema = known.schema
		if t.Description == nil {
			t.Description = known.description
		}
		return
	}
}
