package commit

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// gatherNext starts to gather the next group of q.
func gatherNext(c *gathering) (group <-chan int) {
	done := make(chan int, 1)
	go func() { done <- len(c.next()) }()
	return done
}

func enqueue(t *testing.T, q *queue, s Step) {
	t.Helper()
	if err := q.send(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// step is an operation that does nothing.
type step struct{ Op }

func (*step) Build() error { return nil }

func opening() *step { return &step{Op{Held: true}} }

func ending() *step { return new(step) }

// An opening, for which nobody waits, is committed with the end of an exchange, for which a client waits.
func TestAnOpeningIsCommittedWithTheNextEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1 << 20)
		group := gatherNext(newGathering(&q))
		enqueue(t, &q, opening())
		enqueue(t, &q, opening())
		synctest.Wait()
		if len(group) != 0 {
			t.Fatalf("%d openings were committed although nobody waits", <-group)
		}
		began := time.Now()
		enqueue(t, &q, ending())
		if n := <-group; n != 3 || time.Since(began) != 0 {
			t.Errorf("%d operations were committed after %v, not the end with both openings at once", n, time.Since(began))
		}
	})
}

func TestAnOpeningIsCommittedSoonAlthoughNothingElseHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1 << 20)
		c := newGathering(&q)
		for range 2 { // the timer is used again
			began := time.Now()
			group := gatherNext(c)
			enqueue(t, &q, opening())
			time.Sleep(holdTime / 2)
			enqueue(t, &q, opening())
			if n := <-group; n != 2 || time.Since(began) != holdTime {
				t.Errorf("%d openings were committed after %v, not both after %v", n, time.Since(began), holdTime)
			}
		}
	})
}

// The first byte of a stream waits for the opening, and a full queue for room.
func TestAnOpeningIsCommittedAtOnceWhenSomebodyComesToWait(t *testing.T) {
	for name, wait := range map[string]func(t *testing.T, q *queue){
		"for the opening": func(_ *testing.T, q *queue) { q.hurry.Notify() },
		"for room":        func(t *testing.T, q *queue) { _ = q.send(t.Context(), opening()) },
		"for room, shedding": func(t *testing.T, q *queue) {
			if sent, _ := q.trySend(opening()); sent {
				t.Error("an operation was sent although there is no room")
			}
		},
		"to close": func(_ *testing.T, q *queue) { q.close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(perOpBytes)
				c := newGathering(&q)
				group := gatherNext(c)
				first := opening()
				enqueue(t, &q, first)
				synctest.Wait()
				began := time.Now()
				go wait(t, &q)
				if n := <-group; n != 1 || time.Since(began) != 0 {
					t.Errorf("%d operations were committed after %v, not the opening at once", n, time.Since(began))
				}
				q.release(first.op())
				synctest.Wait()
				q.close()
				for c.next() != nil {
				}
			})
		})
	}
}

// A group that is full is committed although nobody waits: what is held takes memory.
func TestAFullGroupIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(64 << 20)
		group := gatherNext(newGathering(&q))
		began := time.Now()
		for range groupLength {
			enqueue(t, &q, opening())
			runtime.Gosched()
		}
		if n := <-group; n != groupLength || time.Since(began) != 0 {
			t.Errorf("%d operations were committed after %v", n, time.Since(began))
		}
	})
}
