package history

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/chat"
)

// chatGPT exports its conversations as one JSON array, alone or in its archive. A conversation is a tree; the branch
// that was shown last counts.
var chatGPT = client{
	name: "chatgpt", what: "the export of ChatGPT: conversations.json, or the zip archive", shape: &chatShape,
	find: func(ctx context.Context, s *Search) ([]File, error) {
		if s.Path == "" {
			return nil, errors.New("name the export of ChatGPT: conversations.json, or the zip archive")
		}
		files, err := under(ctx, s, "", func(p string) bool { return isChatGPT(path.Base(p)) })
		if err != nil || len(files) != 1 || !strings.HasSuffix(s.Path, ".zip") {
			return files, err
		}
		return inArchive(files[0].Path)
	},
	read: func(r *reader, from io.Reader) error {
		return eachElement(r.ctx, from, r.chatGPTConversation)
	},
}

// isChatGPT recognizes the name of a file of conversations; large exports have several, numbered.
func isChatGPT(name string) bool {
	return strings.HasPrefix(name, "conversations") && strings.HasSuffix(name, ".json")
}

func inArchive(name string) (files []File, err error) {
	archive, err := zip.OpenReader(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = archive.Close() }()
	for _, entry := range archive.File {
		if isChatGPT(path.Base(entry.Name)) {
			files = append(files, File{Path: name, Entry: entry.Name, Size: int64(min(entry.UncompressedSize64, math.MaxInt64))})
		}
	}
	return files, nil
}

type chatGPTConversation struct {
	ID      string                  `json:"conversation_id"`
	OldID   string                  `json:"id"`
	Title   string                  `json:"title"`
	Created float64                 `json:"create_time"` // seconds since 1970
	Current string                  `json:"current_node"`
	Model   string                  `json:"default_model_slug"`
	Nodes   map[string]*chatGPTNode `json:"mapping"`
}

type chatGPTNode struct {
	Parent  string          `json:"parent"`
	Message *chatGPTMessage `json:"message"`
}

type chatGPTMessage struct {
	ID     string `json:"id"`
	Author struct {
		Role string `json:"role"`
		Name string `json:"name"`
	} `json:"author"`
	Created   float64 `json:"create_time"`
	Recipient string  `json:"recipient"`
	Content   struct {
		Type     string            `json:"content_type"`
		Parts    []json.RawMessage `json:"parts"`
		Text     string            `json:"text"`
		Result   string            `json:"result"`
		Thoughts []struct {
			Content string `json:"content"`
		} `json:"thoughts"`
	} `json:"content"`
	Metadata struct {
		Model  string `json:"model_slug"`
		Hidden bool   `json:"is_visually_hidden_from_conversation"`
	} `json:"metadata"`
}

func seconds(s float64) time.Time {
	if s <= 0 || s > math.MaxInt32*100 {
		return time.Time{}
	}
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(part*1e9))
}

func (r *reader) chatGPTConversation(element json.RawMessage) error {
	var c chatGPTConversation
	if err := r.unmarshal(element, &c); err != nil {
		return err
	}
	id := native(cmp.Or(c.ID, c.OldID))
	if id == "" || len(c.Nodes) == 0 {
		r.skip("a conversation without an id or messages")
		return nil
	}
	r.known++
	key := sessionKey{id: id}
	r.title(key, c.Title)
	t := r.thread(key)
	t.agent, t.model = "chatgpt", c.Model
	shown := c.shown()
	if others := len(c.Nodes) - len(shown); others > 0 {
		r.unknown["messages of branches that were not shown last"] += others
	}
	var said chatGPTAnswer
	last := seconds(c.Created)
	for _, m := range shown {
		if m == nil {
			continue
		}
		if at := seconds(m.Created); at.IsZero() {
			m.Created = float64(last.UnixMilli()) / 1000
		} else {
			last = at
		}
		if err := said.take(r, t, m); err != nil {
			return err
		}
	}
	err := errors.Join(said.end(t), t.finish())
	delete(r.threads, key)
	return err
}

// shown returns the messages of the branch that was shown last, oldest first; nil for a node without one.
func (c *chatGPTConversation) shown() (messages []*chatGPTMessage) {
	seen := make(map[string]bool)
	for at := c.Current; c.Nodes[at] != nil && !seen[at]; at = c.Nodes[at].Parent {
		seen[at] = true
		messages = append(messages, c.Nodes[at].Message)
	}
	slices.Reverse(messages)
	return messages
}

// chatGPTAnswer joins a model's consecutive messages.
type chatGPTAnswer struct {
	message chatMessage
	text    []string
	id      string
	at      time.Time
	call    string // id of the call that was made last
}

func (a *chatGPTAnswer) take(r *reader, t *thread, m *chatGPTMessage) error {
	body := m.text(r)
	switch role := m.Author.Role; {
	case role == "assistant":
		t.model = cmp.Or(m.Metadata.Model, t.model)
		a.id, a.at = cmp.Or(a.id, m.ID), seconds(m.Created)
		switch {
		case m.Content.Type == "thoughts":
			a.message.Reasoning += body
		case m.Recipient != "" && m.Recipient != "all":
			a.call = m.ID
			a.message.Calls = append(a.message.Calls, chat.NewCall(m.ID, m.Recipient, string(object("input", text(body)))))
		case body != "":
			a.text = append(a.text, body)
		}
		return nil
	case body == "" || m.Metadata.Hidden:
		return nil
	case role == "user" || role == "tool" || role == "system":
		if err := a.end(t); err != nil {
			return err
		}
		said := chatMessage{Role: role, Content: text(body)}
		if said.CallID = a.call; role == "tool" && a.call == "" {
			said.Role = "system" // not a result of a call
		} else if role != "tool" {
			said.CallID = ""
		}
		return t.ask(said.encode(), seconds(m.Created))
	}
	r.skip("a message of " + m.Author.Role)
	return nil
}

func (a *chatGPTAnswer) end(t *thread) error {
	if len(a.text)+len(a.message.Calls) > 0 {
		a.message.Role = "assistant"
		if len(a.text) > 0 {
			a.message.Content = text(strings.Join(a.text, "\n\n"))
		}
		if _, err := t.answers(t.key.id+"/"+a.id, a.message.encode(), a.at); err != nil {
			return err
		}
	}
	*a = chatGPTAnswer{call: a.call}
	return nil
}

// text returns the text of a message. Images and files are only named.
func (m *chatGPTMessage) text(r *reader) string {
	var parts []string
	for _, part := range m.Content.Parts {
		var words string
		var other struct {
			Type string `json:"content_type"`
			Text string `json:"text"`
		}
		switch {
		case json.Unmarshal(part, &words) == nil:
			parts = append(parts, words)
		case json.Unmarshal(part, &other) == nil && other.Text != "":
			parts = append(parts, other.Text)
		case other.Type != "":
			r.skip(other.Type)
		}
	}
	for _, thought := range m.Content.Thoughts {
		parts = append(parts, thought.Content)
	}
	return strings.TrimSpace(strings.Join(append(parts, m.Content.Text, m.Content.Result), "\n"))
}
