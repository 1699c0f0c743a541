package memory

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Translation is a request as its client sent it, and as the provider got it.
type Translation struct {
	Object  string `json:"object"` // "memory.translation"
	ID      string `json:"id"`
	Surface string `json:"surface"`
	Format  string `json:"format"`

	Same     bool     `json:"same"`              // client and provider speak one format: bytes went through
	Client   string   `json:"client"`            // the body that the client sent
	Provider string   `json:"provider"`          // that which the provider got, made again by today's rules
	Dropped  []string `json:"dropped"`           // members without a counterpart
	Emulated []string `json:"emulated"`          // members that are honoured by other means
	Problem  string   `json:"problem,omitempty"` // why it cannot be made again
}

func (a *api) translation(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if a.Translate == nil {
		return nil, codec.Errorf(codec.KindNotFound, "Translations are made by a running server.")
	}
	x, err := a.Archive.Exchange(c.account, c.id())
	if err != nil {
		return nil, err
	}
	t := Translation{
		Object: "memory.translation", ID: x.ID, Surface: x.Surface, Format: x.Format, Same: x.Surface == x.Format,
		Client: string(x.RawRequest), Dropped: []string{}, Emulated: []string{},
	}
	if t.Same || x.Format == "" {
		t.Provider = t.Client
		return t, nil
	}
	body, notes, err := a.Translate(x)
	if err != nil {
		t.Problem = codec.AsError(err, "it could not be translated again").Message
		return t, nil
	}
	t.Provider = string(body)
	t.Dropped, t.Emulated = append(t.Dropped, notes.Dropped...), append(t.Emulated, notes.Emulated...)
	return t, nil
}

// Translate makes the provider's body of a recorded request.
type Translate func(x *store.Exchange) (body []byte, notes codec.Notes, err error)
