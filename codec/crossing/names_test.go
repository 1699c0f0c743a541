package crossing

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

func newNameMap() nameMap {
	return nameMap{qualified: make(map[string]original)}
}

// to is the name that a provider gets for one of the client's.
func (n *nameMap) to(name string) string {
	if sent, ok := n.sent[name]; ok {
		return sent
	}
	return name
}

func TestNamesBecomeLegal(t *testing.T) {
	long := "mcp__plugin_chrome-devtools-mcp_chrome-devtools__get_console_message" // 68 characters, as Claude Code sends it
	for _, c := range []struct {
		name   string
		format codec.Format
		names  []string
		want   []string
	}{
		{"a legal name keeps itself", codec.Chat, []string{"read", "a-b_c"}, []string{"read", "a-b_c"}},
		{"illegal characters become underscores", codec.Messages, []string{"fs.read/all"}, []string{"fs_read_all"}},
		{"Gemini takes dots and colons, and a letter at the front", codec.Gemini, []string{"fs.read:x", "1st"}, []string{"fs.read:x", "_1st"}},
		{"the exact match keeps the name, the other one gets a hash", codec.Chat, []string{"a.b", "a_b"}, []string{"a_b_qA1RK9IQ", "a_b"}},
		{"of two that meet both get a hash", codec.Chat, []string{"a.b", "a/b"}, []string{"a_b_qA1RK9IQ", "a_b_"}},
		{"a long name is cut and hashed", codec.Chat, []string{long}, []string{long[:55] + "_"}},
		{"Messages takes 128 characters", codec.Messages, []string{long}, []string{long}},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := newNameMap()
			var all [][]byte
			for _, name := range c.names {
				all = append(all, []byte(name))
			}
			names.declare(Traits(c.format).ToolName, all)
			for i, name := range c.names {
				sent := names.to(name)
				if strings.HasSuffix(c.want[i], "_") && len(sent) == len(c.want[i])+hashLength {
					sent = sent[:len(c.want[i])]
				}
				if strings.HasSuffix(c.want[i], "qA1RK9IQ") { // which digits do not matter
					sent, c.want[i] = sent[:4], c.want[i][:4]
				}
				if sent != c.want[i] {
					t.Errorf("%s becomes %s, want %s", name, names.to(name), c.want[i])
				}
			}
		})
	}
}

// Law 7: the maps are injective, lead back, do not depend on the order of the names, and give what the format takes.
func TestNamesLeadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini}).Draw(t, "format")
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c._/: é-]{0,3}(x{70})?|.{1,20}`), 1, 12, rapid.ID).Draw(t, "names")
		var all, backwards [][]byte
		for i := range names {
			all = append(all, []byte(names[i]))
			backwards = append(backwards, []byte(names[len(names)-1-i]))
		}
		forth, again := newNameMap(), newNameMap()
		forth.declare(Traits(format).ToolName, all)
		again.declare(Traits(format).ToolName, backwards)
		seen := make(map[string]string)
		for _, name := range names {
			sent := forth.to(name)
			if !nameRule(Traits(format).ToolName).legal([]byte(sent)) {
				t.Fatalf("%q becomes %q, which %s refuses", name, sent, format)
			}
			if other, taken := seen[sent]; taken {
				t.Fatalf("%q and %q both become %q", name, other, sent)
			}
			seen[sent] = name
			if back := string(forth.original[sent].name); back != name {
				t.Fatalf("%q becomes %q and comes back as %q", name, sent, back)
			}
			if again.to(name) != sent {
				t.Fatalf("%q becomes %q or %q by the order of the names", name, sent, again.to(name))
			}
		}
	})
}

// Law 7 for call ids.
func TestCallIDsStayApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini}).Draw(t, "format")
		target := &codec.Target{}
		if format == codec.Chat && rapid.Bool().Draw(t, "nine") {
			target.Dialect.CallIDPattern = "mistral9"
		}
		rule := Takes(format, target).CallID
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`call_[a-z0-9]{1,80}|functions\.Bash:[0-9]|[A-Za-z0-9]{9}|.{1,10}`), 1, 20, rapid.ID).Draw(t, "ids")
		forth, again := newIDMap(rule), newIDMap(rule)
		seen := make(map[string]string)
		for _, id := range ids {
			sent := string(forth.of([]byte(id)))
			if !legalID(rule, []byte(sent)) {
				t.Fatalf("%q becomes %q, which %s refuses", id, sent, format)
			}
			if other, taken := seen[sent]; taken {
				t.Fatalf("%q and %q both become %q", id, other, sent)
			}
			seen[sent] = id
			if second := string(forth.of([]byte(id))); second != sent {
				t.Fatalf("%q becomes %q and then %q", id, sent, second)
			}
			if other := string(again.of([]byte(id))); other != sent {
				t.Fatalf("%q becomes %q, in another request %q", id, sent, other)
			}
		}
	})
}

// Hashes, not the first characters (docs/wire/translation.md#4.2): ids that carry a signature are alike at their beginning.
func TestLongIDsThatBeginAlikeStayApart(t *testing.T) {
	m := newIDMap(Traits(codec.Responses).CallID)
	stem := "call_1_ts_" + strings.Repeat("A", 100)
	if a, b := m.of([]byte(stem+"1")), m.of([]byte(stem+"2")); bytes.Equal(a, b) {
		t.Errorf("both become %s", a)
	}
}
