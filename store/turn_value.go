package store

import (
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A turn says which exchange goes on from it, and that comes later than all else it says. So this stands in front of the
// encoded record, which then need not be read, put together and compressed a second time. In stores of earlier formats it is a
// field of the record.

// The first byte of a turn, beside those that [blob.Encode] gives it in stores of earlier formats.
const (
	encodingTurn      = 4
	encodingContinued = 5 // the id of the turn that goes on from it stands behind this byte
)

// encodeTurn encodes a turn. One that is said to be continued is encoded as in earlier formats.
func encodeTurn(t *turnRecord) []byte {
	fields := appendFields(buffer.Get(4<<10), t)
	defer buffer.Put(fields)
	if t.Continued != "" {
		return blob.Encode(fields)
	}
	return blob.AppendEncoded([]byte{encodingTurn}, fields)
}

func decodeTurn(value []byte) (*turnRecord, error) {
	const behindID = 1 + len(kv.ExchangeID{})
	continued := ""
	switch {
	case len(value) > 1 && value[0] == encodingTurn:
		value = value[1:]
	case len(value) > behindID && value[0] == encodingContinued:
		continued = kv.ExchangeID(value[1:behindID]).String()
		value = value[behindID:]
	}
	fields, err := blob.AppendDecoded(nil, value)
	if err != nil {
		return nil, err
	}
	t := new(turnRecord)
	if err := decodeRecord(fields, t); err != nil {
		return nil, err
	}
	if continued != "" {
		t.Continued = continued
	}
	return t, nil
}

// continueTurn makes turn the one that goes on from parent, or a branch if there is one already.
func continueTurn(in turns, parent kv.ExchangeID, turn *turnRecord, id kv.ExchangeID) {
	switch before := in.turn(parent); {
	case len(before) == 0:
	case before[0] == encodingTurn:
		in.putTurn(parent, append(append(append(make([]byte, 0, len(before)+len(id)), encodingContinued), id[:]...), before[1:]...))
	default:
		continueDecoded(in, parent, before, turn)
	}
}

// continueDecoded is continueTurn for a turn that another goes on from already, or of an earlier format.
func continueDecoded(in turns, parent kv.ExchangeID, value []byte, turn *turnRecord) {
	before, err := decodeTurn(value)
	switch {
	case err != nil:
	case before.Continued == "":
		before.Continued = turn.Exchange
		in.putTurn(parent, encodeTurn(before))
	case before.Continued != turn.Exchange:
		turn.Branch = true
	}
}

func (g *gathering) putTurn(w *write, account kv.AccountNumber, id kv.ExchangeID, t *turnRecord) {
	g.put(w, kv.ExchangeKey(kv.SpaceTurn, account, id), encodeTurn(t))
}
