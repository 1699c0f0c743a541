package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// byteLoad is set to send bodies that would fill any container: make byte-load.
const byteLoad = "MNEME_BYTE_LOAD"

// strangersTake is how much memory bodies without a key may take, beside what the program takes at rest.
const strangersTake = 128 << 20

// Bodies of callers without a key are not kept, however many and large they are, however they are framed, and wherever
// they are sent.
func TestBodiesOfStrangersTakeNoMemory(t *testing.T) {
	size := int64(8 << 20)
	if os.Getenv(byteLoad) != "" {
		size = 60 << 20
	}
	p := startProgram(t, t.TempDir(), newEvents(t), "admin: {listen: 127.0.0.1:0}")
	service := strings.TrimPrefix(p.url, "http://")
	management := p.managed(t)
	idle := p.anonymous(t)
	for _, chunked := range []bool{false, true} {
		var calls sync.WaitGroup
		load := p.watchMemory(t)
		for i, path := range []string{chat.path, "/nothing", "/mcp", "/v1/memory/search", "/v1/memory/imports", "/v1/admin/keys"} {
			to := service
			if i == 5 {
				to = management
			}
			for range 12 {
				calls.Go(func() {
					if a := flood(to, path, "", size, chunked, nil); a != nil && a.status < 400 {
						t.Errorf("%s is answered with %d", path, a.status)
					}
				})
			}
		}
		calls.Wait()
		if took := load() - idle; took > strangersTake {
			t.Errorf("bodies of %d MB of strangers (chunked: %v) take %d MB", size>>20, chunked, took>>20)
		} else {
			t.Logf("72 bodies of %d MB of strangers (chunked: %v) take %d MB", size>>20, chunked, took>>20)
		}
	}
	eventually(t, func() error { return p.isBack(t, idle) })
}

// flood sends a chat request of a size, or a body that is given as gzip, and returns what it is answered with; nil where
// the connection ends without an answer.
func flood(address, path, key string, size int64, chunked bool, packed []byte) *answer {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	if key != "" {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	begin, end := `{"model":"gpt-4.1","messages":[{"role":"user","content":"`, `"}]}`
	switch {
	case packed != nil:
		head += fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n", len(packed))
	case chunked:
		head += "Transfer-Encoding: chunked\r\n"
	default:
		head += fmt.Sprintf("Content-Length: %d\r\n", size)
	}
	go func() { // the answer may come before all has been sent
		out := bufio.NewWriterSize(conn, 64<<10)
		defer func() { _ = out.Flush() }()
		_, _ = out.WriteString(head + "\r\n")
		if packed != nil {
			_, _ = out.Write(packed)
			return
		}
		piece := strings.Repeat("a", 1<<20)
		for left := size; left > 0; {
			text := piece[:min(left, int64(len(piece)))]
			left -= int64(len(text))
			if begin != "" {
				text, begin = begin+text[len(begin):], ""
			}
			if left == 0 {
				text = text[:len(text)-len(end)] + end
			}
			var err error
			if chunked {
				_, err = fmt.Fprintf(out, "%x\r\n%s\r\n", len(text), text)
			} else {
				_, err = out.WriteString(text)
			}
			if err != nil {
				return
			}
		}
		if chunked {
			_, _ = out.WriteString("0\r\n\r\n")
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	return read(response)
}

// managed is the address of the program's management.
func (p *program) managed(t *testing.T) string {
	t.Helper()
	line := regexp.MustCompile(`management for admin keys.*?(127\.0\.0\.1:\d+)`)
	var found []string
	eventually(t, func() error {
		p.log.mu.Lock()
		defer p.log.mu.Unlock()
		if found = line.FindStringSubmatch(p.log.text.String()); found == nil {
			return errors.New("the program does not name the address of its management")
		}
		return nil
	})
	return found[1]
}

// watchMemory returns a function that returns the most memory that the program has had since.
func (p *program) watchMemory(t *testing.T) (most func() int64) {
	t.Helper()
	stop, largest := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var seen int64
		for {
			seen = max(seen, p.anonymous(t))
			select {
			case <-stop:
				largest <- seen
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-largest
	}
}

// isBack is an error as long as the program has not given back what a load has taken.
func (p *program) isBack(t *testing.T, idle int64) error {
	if kept := p.anonymous(t) - idle; kept > strangersTake {
		return fmt.Errorf("%d MB are kept after a load", kept>>20)
	}
	return nil
}

// anonymous is the memory of the program that is no part of a file, in bytes. The rest the kernel takes back at need.
func (p *program) anonymous(t *testing.T) int64 { return p.memory(t, "RssAnon:") }
