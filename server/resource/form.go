package resource

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"

	"github.com/mnemeproxy/mneme/codec"
)

// IsForm reports whether a body of that type is a multipart form.
func IsForm(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "multipart/form-data"
}

// longestModel is how much of the part with the model is read.
const longestModel = 512

// FormModel returns the model that a multipart form names, "" for none. The error is for the client.
func FormModel(contentType string, body []byte) (model string, err error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return "", codec.Invalid("", "the Content-Type of the form names no boundary")
	}
	form := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return model, nil
		}
		if err != nil {
			return "", codec.Invalid("", "the form cannot be read: it is not whole, or not as its Content-Type says")
		}
		if part.FormName() != "model" {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, longestModel))
		if err != nil {
			return "", codec.Invalid("model", "the form cannot be read: its part model is not whole")
		}
		if model != "" {
			return "", codec.Invalid("model", "the part model occurs twice")
		}
		model = string(text)
	}
}
