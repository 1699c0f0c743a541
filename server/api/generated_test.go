package api_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// caller is a program that knows the file alone.
func (h *harness) caller() *ClientWithResponses {
	h.t.Helper()
	client, err := NewClientWithResponses(h.origin, WithHTTPClient(h.client), WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+h.key)
		return nil
	}))
	ok(h.t, err)
	return client
}

func TestAGeneratedClientListsReadsSearchesAndPrices(t *testing.T) {
	h := build(t)
	exchange, session := h.converse("gpt-4.1", "newts", "does a newt regrow its limbs", "it does, in weeks")
	h.converse("claude-opus-4-8", "toads", "do toads have teeth", "they do not")
	client, ctx := h.caller(), t.Context()

	wait := SearchParamsXServiceMemoryWaitIndexed
	found, err := client.SearchWithResponse(ctx, &SearchParams{XServiceMemoryWait: &wait}, SearchRequest{Query: "newt limbs"})
	ok(t, err)
	if found.JSON200 == nil || len(*found.JSON200.Data) == 0 || (*found.JSON200.Data)[0].ExchangeId != exchange {
		t.Fatalf("the search finds %s", found.Body)
	}

	limit := 1
	newest, err := client.ListSessionsWithResponse(ctx, &ListSessionsParams{Limit: &limit})
	ok(t, err)
	if newest.JSON200 == nil || len(newest.JSON200.Data) != 1 || !newest.JSON200.HasMore {
		t.Fatalf("the first page is %s", newest.Body)
	}
	rest, err := client.ListSessionsWithResponse(ctx, &ListSessionsParams{After: newest.JSON200.LastId})
	ok(t, err)
	if rest.JSON200 == nil || len(rest.JSON200.Data) != 1 || rest.JSON200.Data[0].Id != session {
		t.Fatalf("the second page is %s", rest.Body)
	}

	read, err := client.GetSessionWithResponse(ctx, session)
	ok(t, err)
	if read.JSON200 == nil || *read.JSON200.ChatKey != "newts" {
		t.Errorf("the session is %s", read.Body)
	}
	timeline, err := client.ReadTimelineWithResponse(ctx, session, nil)
	ok(t, err)
	if timeline.JSON200 == nil || len(timeline.JSON200.Data) != 1 || timeline.JSON200.Data[0].Exchange.Id != exchange {
		t.Errorf("the timeline is %s", timeline.Body)
	}
	include := []GetExchangeParamsInclude{GetExchangeParamsIncludeRawResponse}
	whole, err := client.GetExchangeWithResponse(ctx, exchange, &GetExchangeParams{Include: &include})
	ok(t, err)
	if whole.JSON200 == nil || whole.JSON200.RawResponse == nil || !strings.Contains(*whole.JSON200.RawResponse, "it does, in weeks") {
		t.Errorf("the exchange is %s", whole.Body)
	}

	by := []GetUsageParamsBy{GetUsageParamsByModel}
	usage, err := client.GetUsageWithResponse(ctx, &GetUsageParams{By: &by})
	ok(t, err)
	if usage.JSON200 == nil || usage.JSON200.Total.Requests != 2 || len(*usage.JSON200.Data) != 2 {
		t.Fatalf("the usage is %s", usage.Body)
	}
	if !slices.ContainsFunc(*usage.JSON200.Data, func(l UsageLine) bool { return l.Cost.Usd > 0 }) {
		t.Errorf("nothing has a price: %s", usage.Body)
	}
}

func TestAGeneratedClientFollowsTheTail(t *testing.T) {
	h := build(t)
	tail, err := h.caller().Tail(t.Context(), nil)
	ok(t, err)
	defer tail.Body.Close()
	lines := bufio.NewScanner(tail.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), ":") {
		t.Fatalf("the tail begins with %q, %v", lines.Text(), lines.Err())
	}
	exchange, _ := h.converse("gpt-4.1", "newts", "does a newt regrow its limbs", "it does")
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is && member(t, data, "exchange") == exchange {
			return
		}
	}
	t.Errorf("the tail ends without the exchange: %v", lines.Err())
}
