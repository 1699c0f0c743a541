package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// memoryQuestion is a question of LongMemEval with the sessions that it is asked of: longmemeval_s.json and its like are a list of them.
type memoryQuestion struct {
	ID       string         `json:"question_id"`
	Kind     string         `json:"question_type"`
	Text     string         `json:"question"`
	Names    []string       `json:"haystack_session_ids"`
	Sessions [][]memoryTurn `json:"haystack_sessions"`
}

type memoryTurn struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	HasAnswer bool   `json:"has_answer"`
}

// readLongMemEval reads the first questions of a file of LongMemEval; 0 reads all. Each question has an account of its own.
// Questions whose id ends in _abs have no answer and are left out.
func readLongMemEval(path string, first int) (*set, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &set{name: "longmemeval", grades: make(map[string]map[string]float64)}
	decoder := json.NewDecoder(file)
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for decoder.More() && (first == 0 || len(s.questions) < first) {
		var q memoryQuestion
		if err := decoder.Decode(&q); err != nil {
			return nil, fmt.Errorf("%s: question %d: %w", path, len(s.questions)+1, err)
		}
		if len(q.Names) != len(q.Sessions) {
			return nil, fmt.Errorf("%s: question %s has %d sessions and %d names of sessions", path, q.ID, len(q.Sessions), len(q.Names))
		}
		if !strings.HasSuffix(q.ID, "_abs") {
			s.takeMemory(&q)
		}
	}
	return s, nil
}

// takeMemory adds a question and its sessions.
func (s *set) takeMemory(q *memoryQuestion) {
	s.questions = append(s.questions, question{ID: q.ID, Account: q.ID, Text: q.Text, Kind: q.Kind})
	for n, session := range q.Sessions {
		for _, d := range pairs(session) {
			d.ID = fmt.Sprintf("%s/%d", q.ID, len(s.documents))
			d.Account, d.Session = q.ID, fmt.Sprintf("%s/%d/%s", q.ID, n, q.Names[n])
			s.documents = append(s.documents, d.doc)
			if d.answers {
				s.judge(judgement{q.ID, d.ID, 1})
			}
		}
	}
}

// evident is an exchange that may have the answer.
type evident struct {
	doc
	answers bool
}

// pairs returns the exchanges of a session: what the user says, and what follows until the user says more.
func pairs(session []memoryTurn) (list []evident) {
	for _, t := range session {
		last := len(list) - 1
		switch {
		case t.Role == "user":
			list = append(list, evident{doc: doc{User: t.Content}, answers: t.HasAnswer})
			continue
		case last < 0:
			list = append(list, evident{})
			last = 0
		}
		list[last].Assistant += t.Content
		list[last].answers = list[last].answers || t.HasAnswer
	}
	return list
}
