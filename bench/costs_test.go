package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// What the tokens of an exchange were for adds up to its tokens and to its cost, to the billionth of a dollar, whatever asked.
func TestCostsByCauseAddUpOnEveryLane(t *testing.T) {
	t.Parallel()
	fleet, err := startFleet("test", []string{"mneme"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.stop()
	address := fleet.targets[0].address
	ask := func(method, path string, body io.Reader) (http.Header, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+serviceKey)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d %v %s", method, path, response.StatusCode, err, answer)
		}
		return response.Header, answer
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, l := range lanes {
		if l.search || strings.Contains(l.script, "events 2000") {
			continue
		}
		l.script = strings.NewReplacer(" ; delay 10ms", "", " ; delay 500ms", "").Replace(l.script)
		request := newRequest(&l, address, "")
		for n := range min(3, request.turns) {
			_, body, _ := bytes.Cut(request.number(1, n), []byte("\r\n\r\n"))
			header, _ := ask(http.MethodPost, l.path(), bytes.NewReader(body))
			id := header.Get("X-Service-Exchange-ID")
			var x struct {
				Usage record.UsageInfo `json:"usage"`
				Cost  *record.Cost     `json:"cost"`
			}
			_, text := ask(http.MethodGet, "/v1/memory/exchanges/"+id, nil)
			if err := json.Unmarshal(text, &x); err != nil {
				t.Fatal(err)
			}
			if x.Cost == nil && l.model != compatible {
				t.Errorf("%s: an exchange without a cost: %s", l.Name, text)
			}
			for _, by := range api.CostsBy() {
				var costs api.Costs
				_, text := ask(http.MethodGet, fmt.Sprintf("/v1/memory/costs?by=%s&exchange=%s", by, id), nil)
				if err := json.Unmarshal(text, &costs); err != nil {
					t.Fatal(err)
				}
				sum := record.USD(0)
				for i := range costs.Data {
					sum += costs.Data[i].USD
				}
				u := x.Usage
				if input := u.InputUncached + u.CacheRead + u.CacheWrite; costs.Total.Input != input || costs.Total.Output != u.Output {
					t.Errorf("%s by %s: %d and %d tokens, on record %+v", l.Name, by, costs.Total.Input, costs.Total.Output, u)
				}
				if x.Cost != nil && (costs.Total.USD != x.Cost.USD || sum != x.Cost.USD) {
					t.Errorf("%s by %s: total %v, lines %v, on record %v", l.Name, by, costs.Total.USD, sum, x.Cost.USD)
				}
			}
		}
	}
}
