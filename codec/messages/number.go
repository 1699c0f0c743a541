package messages

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec/scan"
)

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// readCount sets n to a counter where v is one; absent, null and nonsense leave it alone.
func readCount(n *int64, v []byte) {
	if got, ok := scan.Int(v); ok && got >= 0 {
		*n = got
	}
}
