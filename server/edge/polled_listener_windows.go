package edge

import (
	"errors"
	"net"

	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/network"
)

// canPoll reports whether this system has netpoll. Windows does not: every listener uses hertz's standard transport,
// with a goroutine per connection.
const canPoll = false

type polledListener struct{ net.Listener }

func (l *listener) poll() (*polledListener, error) { return nil, errors.ErrUnsupported }

func newPollingTransporter(*config.Options) network.Transporter { return nil }

func closeWritePolled(network.Conn) {}
