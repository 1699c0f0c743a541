package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	openairesponses "github.com/openai/openai-go/v3/responses"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// asked is a request of the official SDK that says something to a model.
func asked(model, text string) openairesponses.ResponseNewParams {
	return openairesponses.ResponseNewParams{Model: model, Input: openairesponses.ResponseNewParamsInputUnion{OfString: param.NewOpt(text)}}
}

// A client of Responses counts on the other side to keep what was said. Models whose providers keep nothing are sent it from
// the record: whole conversations by the id of the last response, streamed or not, and single items by theirs.
func TestAConversationContinuesByTheIDsOfItsItems(t *testing.T) {
	h := build(t)
	client := h.openai()
	for _, model := range []string{"claude-opus-4-8", "gemini-2.5-pro", "deepseek-flash"} {
		first, err := client.Responses.New(t.Context(), asked(model, sim("The word is quokka.", "Noted.")))
		ok(t, err)
		second := asked(model, sim("And the number is nine.", "Noted, too."))
		second.PreviousResponseID = param.NewOpt(first.ID)
		stream := client.Responses.NewStreaming(t.Context(), second)
		last := ""
		for stream.Next() {
			if e := stream.Current(); e.Type == "response.completed" {
				last = e.Response.ID
			}
		}
		ok(t, stream.Err())
		third := asked(model, "What do you know?")
		third.PreviousResponseID = param.NewOpt(last)
		var answered *http.Response
		went, err := client.Responses.New(t.Context(), third, option.WithResponseInto(&answered))
		ok(t, err)
		if went.PreviousResponseID != last {
			t.Errorf("%s says that it goes on from %q, not %q", model, went.PreviousResponseID, last)
		}
		said := string(h.upstream().Body)
		for _, part := range []string{"quokka", "Noted.", "number is nine", "Noted, too.", "What do you know?"} {
			if strings.Count(said, part) < 1 {
				t.Errorf("%s is not sent %q:\n%s", model, part, said)
			}
		}
		if notes := answered.Header.Get("X-Service-Translation"); !strings.Contains(notes, "emulated=previous_response_id") {
			t.Errorf("the translation for %s is told as %q", model, notes)
		}

		item := asked(model, "")
		item.Input = openairesponses.ResponseNewParamsInputUnion{OfInputItemList: openairesponses.ResponseInputParam{
			openairesponses.ResponseInputItemParamOfItemReference(first.Output[0].ID),
			openairesponses.ResponseInputItemParamOfMessage("And before?", openairesponses.EasyInputMessageRoleUser),
		}}
		_, err = client.Responses.New(t.Context(), item)
		ok(t, err)
		if said := string(h.upstream().Body); !strings.Contains(said, "Noted.") || strings.Contains(said, "quokka") {
			t.Errorf("by an item %s is sent\n%s", model, said)
		}
	}
}

// Ids of another account, of nothing, and of answers that were not kept lead nowhere, and the client is told what to do.
func TestUnknownIDsAreRefused(t *testing.T) {
	h := build(t)
	client := h.openai()
	theirs, err := client.Responses.New(t.Context(), asked("claude-opus-4-8", "The word is quokka."))
	ok(t, err)
	elsewhere := h.post(messages.path, messages.body(`text "hello"`, false)).exchange()
	h.account("zeta")
	for name, row := range map[string]struct{ key, id string }{
		"of another account": {h.createKey("zeta", store.ScopeWrite), theirs.ID},
		"of nothing":         {h.key, "resp_00000000000000000000000000"},
		"of another surface": {h.key, strings.Replace(elsewhere, "exch_", "resp_", 1)},
		"of nobody's":        {h.key, "resp_x"},
	} {
		request := asked("claude-opus-4-8", "Go on.")
		request.PreviousResponseID = param.NewOpt(row.id)
		_, err := client.Responses.New(t.Context(), request, option.WithAPIKey(row.key), option.WithMaxRetries(0))
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound || refused.Code != "previous_response_not_found" || refused.Param != "previous_response_id" {
			t.Errorf("an id %s: %v", name, err)
		}
	}
}

// Other nodes are asked once. A node that returns while a request is answered would let the request through after it was recorded
// as a new conversation.
func TestAnAnswerOfANodeThatIsAwayIsToBeAskedForAgain(t *testing.T) {
	away := codec.Errorf(codec.KindNotFound, "a node is away")
	away.RetryAfter = time.Second
	asks := 0
	h := build(t, func(p *plan) {
		p.engine = func(e *server.Engine) {
			e.Elsewhere = func(string, string) (*record.Exchange, error) { asks++; return nil, away }
		}
	})
	client := h.openai()
	first, err := client.Responses.New(t.Context(), asked("claude-opus-4-8", "The word is quokka."))
	ok(t, err) // and the archive has it, as if the node had returned
	request := asked("claude-opus-4-8", "Go on.")
	request.PreviousResponseID = param.NewOpt(first.ID)
	_, err = client.Responses.New(t.Context(), request, option.WithMaxRetries(0))
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound || refused.Response.Header.Get("Retry-After") == "" || asks != 1 {
		t.Errorf("after %d questions: %v", asks, err)
	}
}

// resultOf is the result of a call as the SDK sends it.
func resultOf(call, output string) openairesponses.ResponseInputItemUnionParam {
	result := openairesponses.ResponseInputItemParamOfFunctionCallOutput(output)
	result.OfFunctionCallOutput.CallID = param.NewOpt(call)
	return result
}

// A conversation goes on by ids whichever model answers next: the ids of translated answers mean nothing to OpenAI, and
// those of OpenAI mean nothing to the others.
func TestAConversationContinuesByIDsWhenTheModelChanges(t *testing.T) {
	h := build(t)
	client := h.openai()
	models := []string{"gpt-5", "claude-opus-4-8", "gemini-2.5-pro"}
	h.account("zeta")
	foreign := h.createKey("zeta", store.ScopeWrite)
	for _, from := range models {
		for _, to := range models {
			t.Run(from+" to "+to, func(t *testing.T) {
				first := asked(from, "The word is quokka. [[sim: call look {\"at\":\"zoo\"} ]]")
				first.Tools = []openairesponses.ToolUnionParam{openairesponses.ToolParamOfFunction("look", map[string]any{"type": "object"}, false)}
				called, err := client.Responses.New(t.Context(), first)
				ok(t, err)
				call := ""
				for _, item := range called.Output {
					if item.Type == "function_call" {
						call = item.CallID
					}
				}
				native := from == "gpt-5" && to == "gpt-5" // OpenAI kept it itself

				// The result alone is the input.
				second := asked(to, "")
				second.PreviousResponseID = param.NewOpt(called.ID)
				second.Input = openairesponses.ResponseNewParamsInputUnion{OfInputItemList: openairesponses.ResponseInputParam{
					resultOf(call, "wombat"),
				}}
				second.Tools = first.Tools
				answered, err := client.Responses.New(t.Context(), second)
				ok(t, err)
				said := string(h.upstream().Body)
				for _, part := range []string{"quokka", "zoo", "wombat"} {
					if !strings.Contains(said, part) && (!native || part == "wombat") {
						t.Errorf("the result is sent without %q:\n%s", part, said)
					}
				}
				if strings.Contains(said, called.ID) != native {
					t.Errorf("the id %s in the request: %v\n%s", called.ID, !native, said)
				}
				if native {
					return
				}

				// And one more turn, by the newest id.
				third := asked(from, "What do you know?")
				third.PreviousResponseID, third.Tools = param.NewOpt(answered.ID), first.Tools
				_, err = client.Responses.New(t.Context(), third)
				ok(t, err)
				said = string(h.upstream().Body)
				for _, part := range []string{"quokka", "zoo", "wombat", "What do you know?"} {
					if !strings.Contains(said, part) {
						t.Errorf("the third turn is sent without %q:\n%s", part, said)
					}
				}

				// An item alone.
				item := asked(to, "")
				item.Tools = first.Tools
				item.Input = openairesponses.ResponseNewParamsInputUnion{OfInputItemList: openairesponses.ResponseInputParam{
					openairesponses.ResponseInputItemParamOfItemReference(called.Output[len(called.Output)-1].ID),
					resultOf(call, "numbat"),
				}}
				_, err = client.Responses.New(t.Context(), item)
				ok(t, err)
				if said := string(h.upstream().Body); !strings.Contains(said, "zoo") || !strings.Contains(said, "numbat") || strings.Contains(said, "item_reference") {
					t.Errorf("by an item is sent\n%s", said)
				}

				// Nothing of it leads there from another account.
				_, err = client.Responses.New(t.Context(), second, option.WithAPIKey(foreign), option.WithMaxRetries(0))
				var refused *openai.Error
				if !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound {
					t.Errorf("for another account: %v", err)
				}
				_, err = client.Responses.New(t.Context(), item, option.WithAPIKey(foreign), option.WithMaxRetries(0))
				if said := string(h.upstream().Body); err == nil && strings.Contains(said, "zoo") {
					t.Errorf("another account is answered with\n%s", said)
				}
			})
		}
	}
}
