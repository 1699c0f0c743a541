package main

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// set is documents, questions, and which documents answer which question.
type set struct {
	name      string
	documents []doc
	questions []question
	repeated  []question                    // asked of recall alone: lines of failures, with other numbers than in the documents
	unheard   []question                    // asked of recall alone: there is nothing to say
	grades    map[string]map[string]float64 // by question, by document; absent and 0: not relevant
}

// doc is one exchange of an account.
type doc struct {
	ID        string `json:"id"`
	Account   string `json:"account"`
	Session   string `json:"session"`
	Title     string `json:"title"`
	Text      string `json:"text"`
	User      string `json:"user"`
	Assistant string `json:"assistant"`

	// Command and Output are what a tool was given and gave back between the two; "" in sets of prose.
	Command string `json:"command"`
	Output  string `json:"output"`

	// Steps are calls of tools before the answer, each in an exchange of its own; only generated sets have them.
	Steps []step `json:"-"`
}

// step is a command that an agent runs, with what it says before, and what comes of it.
type step struct{ saying, command, output string }

// spoken returns the user's and the model's text. A passage is the model's answer to its title.
func (d *doc) spoken() (user, assistant string) {
	if d.Text != "" {
		return d.Title, d.Text
	}
	return d.User, d.Assistant
}

type question struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Text    string `json:"text"`
	Kind    string `json:"kind"`

	Values []string `json:"-"` // what the answer has to say; of generated sets
}

type judgement struct {
	Query string  `json:"query"`
	Doc   string  `json:"doc"`
	Grade float64 `json:"grade"`
}

// readSet reads docs.jsonl, queries.jsonl and qrels.jsonl of a directory, each plain or compressed with gzip.
func readSet(dir string) (*set, error) {
	s := &set{name: filepath.Base(dir), grades: make(map[string]map[string]float64)}
	err := errors.Join(
		readLines(filepath.Join(dir, "docs.jsonl"), func(d doc) { s.documents = append(s.documents, d) }),
		readLines(filepath.Join(dir, "queries.jsonl"), func(q question) { s.questions = append(s.questions, q) }),
		readLines(filepath.Join(dir, "qrels.jsonl"), s.judge),
	)
	return s, err
}

func (s *set) judge(j judgement) {
	if s.grades[j.Query] == nil {
		s.grades[j.Query] = make(map[string]float64)
	}
	s.grades[j.Query][j.Doc] = j.Grade
}

// hasSessions reports whether a session has more than one document.
func (s *set) hasSessions() bool { return len(s.sessions()) < len(s.documents) }

// sessions returns the documents by session, in order; sessions are ordered by their first documents.
func (s *set) sessions() [][]*doc {
	var list [][]*doc
	place := make(map[string]int)
	for i := range s.documents {
		d := &s.documents[i]
		at, known := place[d.session()]
		if !known {
			at = len(list)
			place[d.session()] = at
			list = append(list, nil)
		}
		list[at] = append(list[at], d)
	}
	return list
}

// session names the session of a document; one that has none is alone in its own.
func (d *doc) session() string { return cmp.Or(d.Session, d.ID) }

// ofSessions returns the relevant sessions of each question, each with the best grade of its documents.
func (s *set) ofSessions() map[string]map[string]float64 {
	session := make(map[string]string, len(s.documents))
	for i := range s.documents {
		session[s.documents[i].ID] = s.documents[i].session()
	}
	grades := make(map[string]map[string]float64, len(s.grades))
	for question, documents := range s.grades {
		grades[question] = make(map[string]float64)
		for id, grade := range documents {
			grades[question][session[id]] = max(grades[question][session[id]], grade)
		}
	}
	return grades
}

func readLines[T any](path string, take func(T)) error {
	file, err := os.Open(path)
	var from io.Reader = file
	if errors.Is(err, os.ErrNotExist) {
		if file, err = os.Open(path + ".gz"); err == nil {
			from, err = gzip.NewReader(file)
		}
	}
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := json.NewDecoder(from)
	for {
		var line T
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		take(line)
	}
}
