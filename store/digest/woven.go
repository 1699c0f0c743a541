package digest

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/record"
)

// Woven visits the notes that clients insert into the messages of a request, which [Exchange] leaves out, with the name
// of each, such as system-reminder, and its size in bytes. An unreadable request has none.
func Woven(x *record.Exchange, visit func(name string, size int)) {
	request := requests.Get().(*codec.Request)
	defer requests.Put(request)
	if decodeWhole(request, x) != nil {
		return
	}
	var text []byte
	var read func(parts []codec.Part)
	read = func(parts []codec.Part) {
		for i := range parts {
			switch p := &parts[i]; p.Kind {
			case codec.PartText:
				text = scan.Unescape(text[:0], p.Text)
				for name, size := range chatkey.Notes(text) {
					visit(name, size)
				}
			case codec.PartToolResult:
				read(p.Parts)
			}
		}
	}
	for _, m := range spoken(request, 0) {
		if m.Role != codec.RoleAssistant {
			read(m.Parts)
		}
	}
}
