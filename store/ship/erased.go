package ship

import (
	"encoding/json"
	"time"
)

// ErasedMark identifies an entry of the centre's log of erasures; zero: its beginning.
type ErasedMark struct {
	Number uint64 `json:"number,omitempty"`
	Tail   Tail   `json:"tail,omitzero"` // exchange of that entry
}

// ErasedQuestion says which erasures an edge has carried out, and asks for the next ones.
type ErasedQuestion struct {
	Nonce [16]byte   `json:"nonce"`
	Node  uint16     `json:"node"`
	UpTo  ErasedMark `json:"up_to,omitzero"`

	// Clean is a time before which everything that began at the edge has ended and was confirmed by the centre, by the
	// centre's clock; zero: the edge was not asked, or cannot tell.
	Clean time.Time `json:"clean,omitzero"`
}

// ErasedExchange is an exchange that was erased.
type ErasedExchange struct {
	Account  string `json:"account"` // "": the account was deleted
	Exchange string `json:"exchange"`
}

// Erased is the reply to an [ErasedQuestion].
type Erased struct {
	Nonce     [16]byte         `json:"nonce"`
	Exchanges []ErasedExchange `json:"exchanges,omitempty"`
	UpTo      ErasedMark       `json:"up_to,omitzero"` // of the last of them; without any, the mark of the question

	// Wanted is when the last erasure was completed: the centre wants to know whether the edge is clean since then.
	// Zero: there was none.
	Wanted time.Time `json:"wanted,omitzero"`
}

// Seal encodes and signs a question.
func (q *ErasedQuestion) Seal(k *Key) ([]byte, error) { return sealJSON(k, KindErasedQuestion, q) }

// OpenErasedQuestion verifies and decodes a message of [ErasedQuestion.Seal].
func OpenErasedQuestion(k *Key, message []byte) (q ErasedQuestion, err error) {
	err = openJSON(k, KindErasedQuestion, message, &q)
	return q, err
}

// Seal encodes and signs a reply.
func (e *Erased) Seal(k *Key) ([]byte, error) { return sealJSON(k, KindErased, e) }

// OpenErased verifies and decodes a message of [Erased.Seal].
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
