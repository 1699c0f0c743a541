package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/server/command"
)

// TestMain lets the test binary be what the command's own binary is in a run: it starts itself as each target.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "bench" && os.Args[2] == "target" {
		var grammar struct {
			Bench Command `cmd:""`
		}
		os.Exit(command.Main(&grammar, os.Args[1:], &command.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: os.Args[0]}))
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait"),
		goleak.IgnoreAnyFunction("github.com/cloudwego/hertz/pkg/protocol.UpdateServerDate.func1"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
