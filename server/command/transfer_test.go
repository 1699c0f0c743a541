package command

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// What came of an export that broke off is kept up to its last whole line, and the error says how to go on.
func TestAnExportThatBreaksOffIsContinued(t *testing.T) {
	const whole = `{"object":"memory.export","version":1}
{"object":"memory.session","id":"sess_1"}
{"object":"memory.exchange","id":"exch_1","outcome":"complete"}
{"object":"memory.damaged","id":"exch_2"}
`
	const cut = `{"object":"memory.exchange","id":"exch_3","outcome":"comp`
	broken := errors.New("the connection broke")
	for name, from := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "memory.jsonl")
			lines := &exportLines{from: io.MultiReader(from(strings.NewReader(whole+cut)), iotest.ErrReader(broken))}
			err := (&Export{File: file}).write(t.Context(), &Env{Err: io.Discard}, "acme", lines)
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "mneme export --after exch_1;") || lines.damaged != 1 {
				t.Errorf("%v, %d damaged", err, lines.damaged)
			}
			if kept, err := os.ReadFile(partOf(file)); err != nil || string(kept) != whole {
				t.Errorf("kept: %q (%v)", kept, err)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("a part is called a whole")
			}
		})
	}
	var out bytes.Buffer
	err := (&Export{File: "-"}).write(t.Context(), &Env{Out: &out, Err: io.Discard}, "acme", &exportLines{from: io.MultiReader(strings.NewReader(whole), iotest.ErrReader(broken))})
	if out.String() != whole || err == nil || !strings.HasSuffix(err.Error(), "mneme export --after exch_1") {
		t.Errorf("%q, %v", out.String(), err)
	}
	file := filepath.Join(t.TempDir(), "nothing.jsonl")
	err = (&Export{File: file}).write(t.Context(), &Env{Err: io.Discard}, "acme", &exportLines{from: iotest.ErrReader(broken)})
	if _, left := os.Stat(partOf(file)); !errors.Is(err, broken) || left == nil {
		t.Errorf("without a line, %v is left (%v)", left, err)
	}
}
