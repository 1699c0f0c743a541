package store

import (
	"context"

	"github.com/dgraph-io/badger/v4"
)

// Usage says what an account's memory takes and why.
type Usage struct {
	Exchanges     int64 `json:"exchanges"`
	Sessions      int64 `json:"sessions"`
	RequestBytes  int64 `json:"request_bytes"`  // as clients sent them
	ResponseBytes int64 `json:"response_bytes"` // as clients were sent them

	// What is stored for them in the database, by kind.
	StoredBlocks    int64 `json:"stored_blocks"`    // messages, tools and the like
	StoredResponses int64 `json:"stored_responses"` // answers
	StoredRecords   int64 `json:"stored_records"`   // records of exchanges and their skeletons
	StoredSessions  int64 `json:"stored_sessions"`  // sessions, their lists, histories and evidence
	StoredTurns     int64 `json:"stored_turns"`     // what was digested
}

// Stored is everything that is stored for the account's exchanges.
func (u *Usage) Stored() int64 {
	return u.StoredBlocks + u.StoredResponses + u.StoredRecords + u.StoredSessions + u.StoredTurns
}

// Usage works out what an account takes. It goes through all of the account's records, a million in a few seconds.
func (s *Store) Usage(ctx context.Context, account string) (Usage, error) {
	var u Usage
	number, err := s.numberOf(account)
	if err != nil {
		return u, err
	}
	err = s.view(func(tx *badger.Txn) error {
		for _, space := range accountSpaces {
			if err := eachItem(ctx, tx, spaceKeyOf(space, number), func(item *badger.Item) error { return u.add(space, item) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return u, asStorageError(err, "the account's usage could not be worked out; run mneme check")
	}
	return u, nil
}

func (u *Usage) add(space byte, item *badger.Item) error {
	size := item.EstimatedSize()
	switch space {
	case spaceBlock, spaceNode:
		u.StoredBlocks += size
	case spaceResponse:
		u.StoredResponses += size
	case spaceTurn:
		u.StoredTurns += size
	case spaceRequest:
		u.StoredRecords += size
	case spaceExchange:
		u.StoredRecords += size
		u.Exchanges++
		var info struct {
			Request  int64 `json:"request_bytes"`
			Response int64 `json:"response_bytes"`
		}
		err := item.Value(func(value []byte) error { return decodeRecord(value, &info) })
		u.RequestBytes += info.Request
		u.ResponseBytes += info.Response
		return err
	case spaceSession:
		u.Sessions++
		u.StoredSessions += size
	default:
		u.StoredSessions += size
	}
	return nil
}
