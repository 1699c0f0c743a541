package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The log of changes covers all accounts, and is checked once. What its entries refer to is checked with each account.

// feedCheck verifies the log of changes, the changes put aside by stages, and their cursors.
type feedCheck struct {
	*checker
	last   uint64 // highest number assigned, at least
	logged uint64 // the last number in the log so far
}

// logSubject is the subject of findings in the log of changes.
const logSubject = "log of changes"

func (c *checker) checkFeed(ctx context.Context) error {
	c.tx = c.DB.NewTransaction(false)
	defer c.tx.Discard()
	f := &feedCheck{checker: c, last: c.Feed.Coming()} // the effects of a commit in progress are visible
	err := kv.EachItem(ctx, c.tx, []byte{kv.SpaceChange}, f.record)
	if err == nil {
		err = kv.EachItem(ctx, c.tx, feed.CursorPrefix, f.cursor)
	}
	if err != nil && ctx.Err() == nil {
		c.find(logSubject, "it cannot be read: "+err.Error())
		return nil
	}
	return errors.Join(err, c.fix(ctx))
}

// record checks a record of the log or of changes put aside. An unreadable one blocks its stage.
func (c *feedCheck) record(item *badger.Item) error {
	key := item.KeyCopy(nil)
	const build = "; a repair deletes it: then rebuild the index with mneme reindex"
	if len(key) != 2+8 || key[1] != feed.Logged && !slices.Contains(feed.Stages[:], feed.Stage(key[1])) {
		c.find(logSubject, fmt.Sprintf("malformed key %x", key), drop(key))
		return nil
	}
	size, number := feed.AsideSize, binary.BigEndian.Uint64(key[2:])
	if key[1] == feed.Logged {
		size = feed.ChangeSize
	}
	return item.Value(func(value []byte) error {
		changes := uint64(len(value) / size)
		switch {
		case len(value)%size != 0 || changes == 0:
			c.find(logSubject, fmt.Sprintf("record %c %d has %d bytes, which is not a multiple of %d", key[1], number, len(value), size)+build, drop(key))
		case number > c.last:
			c.find(logSubject, fmt.Sprintf("record %c %d is there, and the last number given out is %d; the next start corrects that", key[1], number, c.last))
		case key[1] == feed.Logged && (changes > number || number-changes < c.logged):
			c.find(logSubject, fmt.Sprintf("record %c %d holds %d changes, and the one before ends with %d", key[1], number, changes, c.logged)+build, drop(key))
		case key[1] == feed.Logged:
			c.logged = number
		}
		return nil
	})
}

// cursor checks the cursor of a stage.
func (c *feedCheck) cursor(item *badger.Item) error {
	key := item.KeyCopy(nil)
	name := string(bytes.TrimPrefix(key, feed.CursorPrefix))
	if len(name) != 1 || feed.Stage(name[0]) != feed.Counted && !slices.Contains(feed.Stages[:], feed.Stage(name[0])) {
		c.find(logSubject, fmt.Sprintf("there is a cursor of %q, which is no stage", name), drop(key))
		return nil
	}
	return item.Value(func(value []byte) error {
		if len(value) != 8 {
			c.find(logSubject, fmt.Sprintf("the cursor of stage %s has %d bytes, not 8", name, len(value)),
				fix{Entry: feed.Cursor(feed.Stage(name[0]), 0)}) // from the beginning: repeating is harmless
		} else if at := binary.BigEndian.Uint64(value); at > c.last {
			c.find(logSubject, fmt.Sprintf("the cursor of stage %s is at %d, and the last number given out is %d; the next start corrects that, then build the index again with mneme reindex", name, at, c.last))
		}
		return nil
	})
}

// compareTurns finds the ended exchanges that have no turn and that the digest stage does not know of.
func (c *checker) compareTurns(ctx context.Context) error {
	missing := make(map[kv.ExchangeID]struct{})
	for id, x := range c.exchanges {
		if _, there := c.live[x.session]; there && x.speaks && !x.turn {
			missing[id] = struct{}{}
		}
	}
	if !c.Digests || len(missing) == 0 {
		return nil
	}
	cursor, _, err := feed.CursorAt(c.tx, feed.StageDigest)
	if err != nil {
		return err
	}
	for of, size := range map[byte]int{feed.Logged: feed.ChangeSize, byte(feed.StageDigest): feed.AsideSize} {
		err := kv.EachValue(ctx, c.tx, []byte{kv.SpaceChange, of}, func(key, value []byte) error {
			if of == feed.Logged && binary.BigEndian.Uint64(key[2:]) <= cursor {
				return nil
			}
			for ; len(value) >= size; value = value[size:] {
				if kv.AccountNumber(binary.BigEndian.Uint32(value)) == c.account {
					delete(missing, kv.ExchangeID(value[4:]))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for id := range missing {
		c.find(id.String(), "it has no turn, and does not wait for one", drop(kv.ExchangeKey(kv.SpaceTurn, c.account, id)))
	}
	return nil
}
