package command

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// ShowsProgress reports whether standard error is a terminal; progress is drawn nowhere else.
func (s *Env) ShowsProgress() bool { return isTerminal(s.Err) }

// turnsWhenAdding has the spinner of a bar turn with each addition. By default the library starts a goroutine for it, which
// reads the bar without its lock and never ends if the bar does not.
var turnsWhenAdding = progressbar.OptionSetSpinnerChangeInterval(0)

// progress shows a progress bar for size bytes, or -1 if the size is unknown.
func (s *Env) progress(what string, size int64) *progressbar.ProgressBar {
	if !s.ShowsProgress() {
		return progressbar.NewOptions64(size, progressbar.OptionSetVisibility(false), turnsWhenAdding)
	}
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription(what), turnsWhenAdding,
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSpinnerType(14), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
}

// waiting shows an indeterminate progress bar until done is called.
func (s *Env) waiting(what string) (done func()) {
	if !s.ShowsProgress() {
		return func() {}
	}
	bar := progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription(what), turnsWhenAdding,
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				_ = bar.Finish()
				return
			case <-tick.C:
				_ = bar.Add(1)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// copyShown copies with a progress bar until ctx ends.
func (s *Env) copyShown(ctx context.Context, to io.Writer, from io.Reader, what string, size int64) (int64, error) {
	bar := s.progress(what, size)
	n, err := io.Copy(io.MultiWriter(to, bar), from)
	_ = bar.Finish()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return n, err
}
