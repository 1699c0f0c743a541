package messages

import "github.com/mnemeproxy/mneme/codec"

func (provider) AppendRequest(dst []byte, r *codec.Request, t *codec.Target) ([]byte, error) { return dst, nil }
