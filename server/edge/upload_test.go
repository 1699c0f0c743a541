package edge

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
)

// waiting is a client that sends some bytes and then nothing, until the time for reading has ended.
type waiting struct {
	net.Conn
	rest  string
	reads chan struct{} // closed when it is waited for

	mu   sync.Mutex
	over chan struct{} // closed at the end of the time
}

func (w *waiting) Read(p []byte) (int, error) {
	if w.rest != "" {
		n := copy(p, w.rest)
		w.rest = w.rest[n:]
		return n, nil
	}
	close(w.reads)
	<-w.over
	return 0, os.ErrDeadlineExceeded
}

func (w *waiting) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !at.IsZero() && at.Before(time.Now()) {
		close(w.over)
	}
	return nil
}

func TestAnUploadThatWaitsForItsClientIsStoppedAtOnce(t *testing.T) {
	all := &connections{limits: connectionLimits{head: 1 << 10, body: 1 << 20}, memory: NewBudget(4<<20, nil), timeout: time.Hour}
	client := &waiting{rest: "hello", reads: make(chan struct{}), over: make(chan struct{})}
	c := &connection{wire: wire{Conn: client, memory: all.memory}, all: all, rc: app.NewContext(0)}
	c.request, c.response = Request{rc: c.rc, conn: c}, Response{rc: c.rc, conn: c}
	c.since.Store(time.Now().UnixNano())
	c.rc.Request.Header.SetContentLength(10)
	c.body.hide(c)
	upload := c.request.Upload()
	var got strings.Builder
	ended := make(chan error)
	go func() {
		_, err := io.Copy(&got, upload)
		ended <- err
	}()
	<-client.reads
	if upload.Stop() {
		t.Error("five of ten bytes are the whole body")
	}
	if err := <-ended; err == nil || got.String() != "hello" {
		t.Errorf("%q, %v", got.String(), err)
	}
	if _, err := upload.Read(make([]byte, 1)); !errors.Is(err, errStopped) {
		t.Errorf("after the stop: %v", err)
	}
	if err := upload.Fault(); err != nil || c.body.status != 0 || !c.rc.Response.ConnectionClose() {
		t.Errorf("the client is blamed: %v, %d", err, c.body.status)
	}
}

func TestAClientThatLeavesDuringAnUploadEndsItsRequest(t *testing.T) {
	conn, _ := arriving(t, 10, "hello", 3)
	left := false
	conn.cancel = func() { left = true }
	if got, err := io.ReadAll(conn.request.Upload()); string(got) != "hello" || err == nil || !left {
		t.Errorf("%q, %v, %v", got, err, left)
	}
}

func TestAnUploadThatHasArrivedIsWhole(t *testing.T) {
	conn, _ := arriving(t, chunkedLength, "5\r\nhello\r\n0\r\n\r\n", 3)
	upload := conn.request.Upload()
	if got, err := io.ReadAll(upload); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if !upload.Stop() || upload.Fault() != nil {
		t.Error("it is not whole")
	}
}
