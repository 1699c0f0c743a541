package digest

import (
	"bytes"
	"encoding/base64"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/record"
)

// Media returns the bytes of a media part in the request of a whole exchange. message and part count from 0 in the
// Messages of [Exchange]. The error is [codec.KindNotFound] if there is no such part, or the request does not have its
// bytes, and [codec.KindTooLarge] if it has more than most bytes.
func Media(x *record.Exchange, message, part, most int) ([]byte, error) {
	request := requests.Get().(*codec.Request)
	defer requests.Put(request)
	if err := decodeWhole(request, x); err != nil {
		return nil, err
	}
	messages, _ := history(request, 0)
	missing := codec.Errorf(codec.KindNotFound, "the request holds no medium as part %d of message %d", part, message)
	if message < 0 || message >= len(messages) || part < 0 || part >= len(messages[message].Parts) || messages[message].Parts[part].Kind != partMedia {
		return nil, missing
	}
	before := mediaIn(messages[message].Parts[:part])
	for i := range messages[:message] {
		before += mediaIn(messages[i].Parts)
	}
	return decoded(medium(request, before).Data, most, missing)
}

// AnswerMedia returns the bytes of a media part of the answer, as [Media] does for a request.
func AnswerMedia(x *record.Exchange, part, most int) ([]byte, error) {
	surface, err := surfaceOf(x)
	if err != nil {
		return nil, err
	}
	answer := readAnswer(surface, x)
	parts := answered(answer).Parts
	missing := codec.Errorf(codec.KindNotFound, "the answer holds no medium as part %d", part)
	if part < 0 || part >= len(parts) || parts[part].Kind != partMedia {
		return nil, missing
	}
	before := mediaIn(parts[:part])
	for i := range answer.Items {
		if data := drawn(&answer.Items[i]); len(data) > 0 {
			if before == 0 {
				return decoded(data, most, missing)
			}
			before--
		}
	}
	return nil, missing
}

// decoded returns the bytes of a medium from its base64, a string body.
func decoded(data []byte, most int, missing error) ([]byte, error) {
	switch {
	case len(data) == 0:
		return nil, missing
	case len(data)/4*3 > most:
		return nil, codec.Errorf(codec.KindTooLarge, "The medium has about %d bytes, and the limit is %d; read it from the raw request of the exchange.", len(data)/4*3, most)
	}
	plain, err := base64.RawStdEncoding.DecodeString(string(bytes.TrimRight(scan.Unescape(nil, data), "=\r\n ")))
	if err != nil {
		return nil, missing
	}
	return plain, nil
}

// drawn returns the base64 of an image made by a tool of the provider, a string body; nil if an item is none.
func drawn(it *codec.Item) []byte {
	if it.Type != codec.ItemServerTool || scan.String(scan.Get(it.Raw, "type")) != "image_generation_call" {
		return nil
	}
	return scan.Body(scan.Get(it.Raw, "result"))
}

// surfaceOf returns the surface of an exchange. Those that were imported by earlier versions may have any.
func surfaceOf(x *record.Exchange) (codec.Format, error) {
	surface, err := codec.ParseFormat(x.Surface)
	if err != nil {
		return surface, codec.Errorf(codec.KindNotFound, "the exchange has no parts that can be read: its surface %q is unknown", x.Surface)
	}
	return surface, nil
}

func decodeWhole(r *codec.Request, x *record.Exchange) error {
	surface, err := surfaceOf(x)
	if err != nil {
		return err
	}
	r.Reset()
	return crossing.ClientCodec(surface).DecodeRequest(r, x.RawRequest)
}

func mediaIn(parts []record.Part) (n int) {
	for i := range parts {
		if parts[i].Kind == partMedia {
			n++
		}
	}
	return n
}

// medium returns the nth part, from 0, that becomes a media part in a partList.
func medium(r *codec.Request, n int) *codec.Part {
	var find func(parts []codec.Part) *codec.Part
	find = func(parts []codec.Part) *codec.Part {
		for i := range parts {
			switch p := &parts[i]; p.Kind {
			case codec.PartImage, codec.PartAudio, codec.PartDocument:
				if len(p.Text) > 0 {
					continue // becomes a text
				}
				if n == 0 {
					return p
				}
				n--
			case codec.PartToolResult:
				if inside := find(p.Parts); inside != nil {
					return inside
				}
			}
		}
		return nil
	}
	for _, m := range spoken(r, 0) {
		if p := find(m.Parts); p != nil {
			return p
		}
	}
	return new(codec.Part)
}
