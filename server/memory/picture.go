package memory

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// maxPicture is the largest image, in bytes: providers accept less.
const maxPicture = 20 << 20

// pictureTypes are shown by every browser, and none of them runs code. The first bytes of an image decide its type,
// whatever the client calls it.
var pictureTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func (h *handler) requestPicture(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	message, wrongMessage := strconv.Atoi(c.r.PathValue("message"))
	part, wrongPart := strconv.Atoi(c.r.PathValue("part"))
	if wrongMessage != nil || wrongPart != nil {
		return nil, codec.Errorf(codec.KindNotFound, "Messages and parts of a request are numbers from 0.")
	}
	return h.picture(c, func(x *record.Exchange) ([]byte, error) { return digest.Media(x, message, part, maxPicture) })
}

func (h *handler) answerPicture(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	part, err := strconv.Atoi(c.r.PathValue("part"))
	if err != nil {
		return nil, codec.Errorf(codec.KindNotFound, "Parts of an answer are numbers from 0.")
	}
	return h.picture(c, func(x *record.Exchange) ([]byte, error) { return digest.AnswerMedia(x, part, maxPicture) })
}

// picture serves the image that find returns.
func (h *handler) picture(c *call, find func(*record.Exchange) ([]byte, error)) (any, error) {
	x, err := h.Archive.Exchange(c.account, c.id())
	if err != nil {
		return nil, err
	}
	picture, err := find(x)
	if err != nil {
		return nil, err
	}
	kind := http.DetectContentType(picture)
	if !slices.Contains(pictureTypes, kind) {
		return nil, codec.Errorf(codec.KindNotFound, "That part is not a PNG, JPEG, GIF or WebP picture: see the raw bytes of the exchange.")
	}
	header := c.w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.Itoa(len(picture)))
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store") // it may be erased, and the next user of the browser may be of another account
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(picture) // fails only when the caller has left
	return nil, nil
}
