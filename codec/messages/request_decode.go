package messages

import "github.com/mnemeproxy/mneme/codec"

func (client) DecodeRequest(r *codec.Request, body []byte) error { return nil }
