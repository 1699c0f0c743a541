package provider

import "sync"

// storedAnswers is what previous_response_id refers to: enough of an answer to go on with its script.
type storedAnswers struct {
	mu    sync.Mutex
	byID  map[string]storedAnswer
	order []string
}

type storedAnswer struct {
	script string   // the marker, "" for none
	step   int      // of the script
	calls  []string // call ids that wait for their outputs
}

// Bounds of the stored answers.
const (
	maxStored       = 1024
	maxStoredScript = 16 << 10
)

func newStoredAnswers() *storedAnswers {
	return &storedAnswers{byID: make(map[string]storedAnswer)}
}

func (s *storedAnswers) get(id string) (storedAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, ok := s.byID[id]
	return kept, ok
}

func (s *storedAnswers) put(id string, kept storedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.byID[id]; !again {
		if len(s.order) == maxStored {
			delete(s.byID, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, id)
	}
	s.byID[id] = kept
}
