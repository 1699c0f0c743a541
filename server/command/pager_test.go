package command

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestNothingIsPagedWhereNobodyLooks(t *testing.T) {
	t.Setenv(envPager, "cat")
	var out bytes.Buffer
	s := &Env{In: strings.NewReader(""), Out: &out, Err: io.Discard}
	if s.pages() != io.Writer(&out) {
		t.Error("output that is no terminal goes to a pager")
	}
	if err := s.showPages(); err != nil || out.Len() > 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestAPagerShowsWhatIsLong(t *testing.T) {
	long := strings.Repeat("a line\n", 100_000)
	var out bytes.Buffer
	s := &Env{Out: &out, Err: io.Discard}
	if err := s.through("cat", bytes.NewBufferString(long)); err != nil || out.String() != long {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	if err := s.through("exit 0", bytes.NewBufferString(long)); err != nil {
		t.Errorf("a user who has seen enough is an error: %v", err)
	}
	if err := s.through("exit 3", bytes.NewBufferString("short")); err == nil || !strings.Contains(err.Error(), "set PAGER") {
		t.Errorf("a pager that fails: %v", err)
	}
}
