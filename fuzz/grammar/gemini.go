package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Gemini checks that stream is one complete stream of streamGenerateContent, as strictly as the strictest of Google's
// SDKs: only data lines; one model and id; exactly the candidate 0, with the role of the model; parts with one datum
// each; calls with an id, a name and an object, the first of them signed; signatures in base64; a reason for stopping
// and the counts in the last frame, and there only. Or else an error as the last frame.
func Gemini(stream []byte) error {
	var c geminiChecker
	if err := eachFrame(stream, c.frame); err != nil {
		return err
	}
	if !c.over {
		return errors.New("the stream ends without a reason for stopping and without an error")
	}
	return nil
}

type geminiChecker struct {
	model, id string
	called    bool
	over      bool
}

// geminiFrame has all members of a frame; there are no others.
type geminiFrame struct {
	Candidates []geminiCandidate `json:"candidates"`
	Usage      *geminiUsage      `json:"usageMetadata"`
	Model      string            `json:"modelVersion"`
	ID         string            `json:"responseId"`
	Error      *geminiError      `json:"error"`
}

type geminiCandidate struct {
	Content struct {
		Parts []geminiPart `json:"parts"`
		Role  string       `json:"role"`
	} `json:"content"`
	Finish    string          `json:"finishReason"`
	Index     *int            `json:"index"`
	Grounding json.RawMessage `json:"groundingMetadata"`
}

type geminiPart struct {
	Text      *string         `json:"text"`
	Thought   bool            `json:"thought"`
	Signature *[]byte         `json:"thoughtSignature"`
	Call      *geminiCall     `json:"functionCall"`
	Picture   json.RawMessage `json:"inlineData"`
}

type geminiCall struct {
	ID   string                     `json:"id"`
	Name string                     `json:"name"`
	Args map[string]json.RawMessage `json:"args"`
}

type geminiUsage struct {
	Prompt     *int64 `json:"promptTokenCount"`
	Cached     int64  `json:"cachedContentTokenCount"`
	Candidates int64  `json:"candidatesTokenCount"`
	Thoughts   int64  `json:"thoughtsTokenCount"`
	Total      *int64 `json:"totalTokenCount"`
}

type geminiError struct {
	Code    int               `json:"code"`
	Message string            `json:"message"`
	Status  string            `json:"status"`
	Details []json.RawMessage `json:"details"`
}

func (c *geminiChecker) frame(frame []byte) error {
	data, ok := bytes.CutPrefix(frame, []byte("data: "))
	switch {
	case len(frame) == 0:
		return nil // a sign of life
	case bytes.ContainsAny(frame, "\n\r"):
		return errors.New("more than one line")
	case c.over:
		return errors.New("something after the end")
	case !ok:
		return errors.New("not a data line")
	}
	var f geminiFrame
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return err
	}
	if f.Error != nil {
		return c.failure(&f)
	}
	if c.model == "" {
		c.model, c.id = f.Model, f.ID
	}
	switch {
	case f.Model == "" || f.Model != c.model || f.ID != c.id:
		return errors.New("no model, or model or id differ from the first frame's")
	case len(f.Candidates) != 1 || f.Candidates[0].Index == nil || *f.Candidates[0].Index != 0:
		return errors.New("not exactly the candidate 0")
	}
	return c.candidate(&f.Candidates[0], f.Usage)
}

func (c *geminiChecker) failure(f *geminiFrame) error {
	c.over = true
	if e := f.Error; f.Candidates != nil || f.Usage != nil || e.Code < 400 || e.Code > 599 || e.Message == "" || e.Status == "" {
		return errors.New("the error has candidates or counts, or lacks a code, a message or a status")
	}
	return nil
}

func (c *geminiChecker) candidate(candidate *geminiCandidate, usage *geminiUsage) error {
	last := candidate.Finish != ""
	switch {
	case candidate.Content.Role != "model" || len(candidate.Content.Parts) == 0:
		return errors.New("no content of the model")
	case last != (usage != nil), !last && candidate.Grounding != nil:
		return errors.New("counts or sources without a reason for stopping, or no counts with one")
	}
	for i := range candidate.Content.Parts {
		if err := c.part(&candidate.Content.Parts[i], last); err != nil {
			return err
		}
	}
	if last {
		return c.stop(candidate.Finish, usage)
	}
	return nil
}

func (c *geminiChecker) part(p *geminiPart, last bool) error {
	data := 0
	for _, has := range []bool{p.Text != nil, p.Call != nil, p.Picture != nil} {
		if has {
			data++
		}
	}
	switch {
	case data != 1:
		return fmt.Errorf("%d data in one part", data)
	case p.Thought && p.Text == nil:
		return errors.New("a thought that is not a text")
	case p.Text != nil && *p.Text == "" && p.Signature == nil && !last:
		return errors.New("an empty text")
	case p.Signature != nil && len(*p.Signature) == 0:
		return errors.New("an empty signature")
	case p.Call == nil:
		return nil
	case p.Call.ID == "" || p.Call.Name == "" || p.Call.Args == nil:
		return errors.New("a call without an id, a name or an object of arguments")
	case !c.called && p.Signature == nil:
		return errors.New("the first call is not signed")
	}
	c.called = true
	return nil
}

func (c *geminiChecker) stop(finish string, u *geminiUsage) error {
	c.over = true
	switch {
	case !slices.Contains([]string{"STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"}, finish):
		return fmt.Errorf("%s is no reason for stopping that is written here", finish)
	case u.Prompt == nil || u.Total == nil:
		return errors.New("the counts lack that of the prompt or the total")
	case *u.Total != *u.Prompt+u.Candidates+u.Thoughts || u.Cached > *u.Prompt:
		return errors.New("the counts do not add up")
	}
	return nil
}
