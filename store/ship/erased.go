package ship

import (
	"encoding/json"
	"time"
)

// ErasedMark is an entry of the centre's log of what was erased; zero: its beginning.
type ErasedMark struct {
	Number uint64 `json:"number,omitempty"`
	Tail   Tail   `json:"tail,omitzero"` // exchange of that entry
}

// ErasedQuestion says what an edge has carried out, and asks for more.
type ErasedQuestion struct {
	Nonce [16]byte   `json:"nonce"`
	Node  uint16     `json:"node"`
	UpTo  ErasedMark `json:"up_to,omitzero"`

	// Clean is a time before which everything that began at the edge has ended, and was confirmed by the centre; zero: the edge was
	// not asked, or cannot say.
	Clean time.Time `json:"clean,omitzero"`
}

// ErasedExchange is an exchange that was erased.
type ErasedExchange struct {
	Account  string `json:"account"` // "": it was deleted
	Exchange string `json:"exchange"`
}

// Erased is the reply.
type Erased struct {
	Nonce     [16]byte         `json:"nonce"`
	Exchanges []ErasedExchange `json:"exchanges,omitempty"`
	UpTo      ErasedMark       `json:"up_to,omitzero"` // of the last of them; where there are none, as far as the edge is

	// Wanted is when the last erasure was done: the centre wants to hear that the edge is clean since. Zero: there was none.
	Wanted time.Time `json:"wanted,omitzero"`
}

// Seal makes a message of a question.
func (q *ErasedQuestion) Seal(k *Key) ([]byte, error) { return sealJSON(k, KindErasedQuestion, q) }

// OpenErasedQuestion reads what [ErasedQuestion.Seal] has written.
func OpenErasedQuestion(k *Key, message []byte) (q ErasedQuestion, err error) {
	err = openJSON(k, KindErasedQuestion, message, &q)
	return q, err
}

// Seal makes a message of a reply.
func (e *Erased) Seal(k *Key) ([]byte, error) { return sealJSON(k, KindErased, e) }

// OpenErased reads what [Erased.Seal] has written.
func OpenErased(k *Key, message []byte) (e Erased, err error) {
	err = openJSON(k, KindErased, message, &e)
	return e, err
}

func sealJSON(k *Key, kind Kind, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	return k.Seal(kind, body), err
}

func openJSON(k *Key, kind Kind, message []byte, v any) error {
	body, err := k.Open(kind, message)
	if err != nil {
		return err
	}
	if json.Unmarshal(body, v) != nil {
		return errMalformed
	}
	return nil
}
