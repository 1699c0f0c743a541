package memory

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
)

func (h *handler) translation(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if h.Translate == nil {
		return nil, codec.Errorf(codec.KindNotFound, "Translations are made by a running server.")
	}
	x, err := h.Archive.Exchange(c.account, c.id())
	if err != nil {
		return nil, err
	}
	t := api.Translation{
		Object: "memory.translation", ID: x.ID, Surface: x.Surface, Format: x.Format, Same: x.Surface == x.Format,
		Client: string(x.RawRequest), Dropped: []string{}, Emulated: []string{},
	}
	if t.Same || x.Format == "" {
		t.Provider = t.Client
		return t, nil
	}
	body, notes, err := h.Translate(x)
	if err != nil {
		t.Problem = codec.AsError(err, "it could not be translated again").Message
		return t, nil
	}
	t.Provider = string(body)
	t.Dropped, t.Emulated = append(t.Dropped, notes.Dropped...), append(t.Emulated, notes.Emulated...)
	return t, nil
}
