package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLongMemEvalIsReadWithItsEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "longmemeval.json")
	const file = `[
		{"question_id": "q1", "question_type": "single", "question": "What did I buy?", "answer": "a lamp", "answer_session_ids": ["b"],
			"haystack_session_ids": ["a", "b"], "haystack_sessions": [
				[{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good morning."}],
				[{"role": "assistant", "content": "Welcome."}, {"role": "user", "content": "I bought a lamp.", "has_answer": true}, {"role": "assistant", "content": "Nice."}]]},
		{"question_id": "q2_abs", "question": "What did I sell?", "haystack_session_ids": [], "haystack_sessions": []},
		{"question_id": "q3", "question": "Where?", "haystack_session_ids": ["a"], "haystack_sessions": [[{"role": "user", "content": "In Graz."}]]}]`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readLongMemEval(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.questions) != 2 || len(s.documents) != 4 || len(s.sessions()) != 3 {
		t.Fatalf("read %d questions, %d exchanges and %d sessions, want 2, 4 and 3", len(s.questions), len(s.documents), len(s.sessions()))
	}
	if grades := s.grades["q1"]; len(grades) != 1 || grades["q1/2"] != 1 || s.documents[2].User != "I bought a lamp." || s.documents[2].Assistant != "Nice." {
		t.Errorf("the answer is %v of %+v", grades, s.documents)
	}
	if s, err := readLongMemEval(path, 1); err != nil || len(s.questions) != 1 {
		t.Errorf("the first question alone is %+v, %v", s, err)
	}
	if err := os.WriteFile(path, []byte(file[:200]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLongMemEval(path, 0); err == nil {
		t.Error("a file that ends early is read without an error")
	}
}
