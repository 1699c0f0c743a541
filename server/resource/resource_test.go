package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

func TestAPathLeadsToWhatItNames(t *testing.T) {
	for _, row := range []struct {
		path   string
		google bool
		want   string // kind, id, model, verb
	}{
		{"/v1/files", false, "files"},
		{"/files/file-1/content", false, "files id=file-1 below"},
		{"/v1/Files/file-1", false, "files id=file-1"},
		{"/v1/files/", false, "files"},
		{"/v1/filesystem", false, ""},
		{"/v1/chat/completions/c1/messages", false, "chat/completions id=c1 below"},
		{"/v1/messages/batches/b1/results", false, "messages/batches id=b1 below"},
		{"/v1/messages/x", false, ""},
		{"/v1/fine_tuning/jobs", false, "fine_tuning"},
		{"/v1/fine_tuning/jobs/f1/cancel", false, "fine_tuning id=f1 below"},
		{"/v1beta/files/a", true, "files id=files/a"},
		{"/v1beta/files/a:download", true, "files id=files/a verb=download"},
		{"/upload/v1beta/files", true, "files"},
		{"/files/a", true, "files id=files/a"},
		{"/v1beta/models/imagen-4:predict", true, "models model=imagen-4 verb=predict"},
		{"/v1beta/models/veo/operations/o1", true, "models id=models/veo/operations/o1 below"},
		{"/v1/models/ft:gpt:x", false, "models model=ft:gpt:x"},
		{"/v1/organization/users", false, "organization"},
		{"/v1/audio/speech", false, "audio"},
		{"/v1/audio/voices/v1", false, "audio/voices id=v1"},
		{"/v1/threads/runs", false, "threads/runs"},
	} {
		at := At(row.path, row.google)
		got := ""
		if at.Kind != nil {
			got = at.Kind.Name
		}
		for name, value := range map[string]string{"id": at.ID} {
			if value != "" {
				got += " " + name + "=" + value
			}
		}
		if at.Model != "" {
			got += " model=" + at.Model
		}
		if at.Verb != "" {
			got += " verb=" + at.Verb
		}
		if at.Below {
			got += " below"
		}
		if got != row.want {
			t.Errorf("%s leads to %q, want %q", row.path, got, row.want)
		}
	}
}

func TestAPathWithoutAProvidersNameHasOneOwner(t *testing.T) {
	for _, row := range []struct {
		path   string
		client Owner
		want   string
	}{
		{"/v1/files", OpenAI, "openai"},
		{"/v1/files", Anthropic, "anthropic"},
		{"/v1/files", Google, "gemini"},
		{"/upload/v1/files", Google, "gemini"},
		{"/v1/cachedContents", Google, "gemini"},
		{"/v1/images/edits", Google, ""},
		{"/v1beta/files", Anthropic, "gemini"},
		{"/upload/v1beta/files", OpenAI, "gemini"},
		{"/v1/messages/batches", OpenAI, "anthropic"},
		{"/v1/images/edits", Anthropic, "openai"},
		{"/v1beta/images", OpenAI, ""},
		{"/v2/files", Google, ""},
		{"/files", OpenAI, ""},
		{"/v1/nothing", OpenAI, ""},
		{"/", OpenAI, ""},
	} {
		got := ""
		if owner, found := Find(row.path, row.client); found {
			got = owner.Provider()
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.path, got, row.want)
		}
	}
}

func TestAPathThatTwoReadersCouldResolveDifferentlyIsFaulty(t *testing.T) {
	for _, path := range []string{"/v1/../x", "/v1/./x", "/v1/..;/x", "/v1/%2e%2e/x", "/v1/a\\b", "/v1/a\r\nb", "//host/x", "x", "/v1/\x00", "/v1/\xff"} {
		if Fault(path, "") == "" {
			t.Errorf("%q is passed on", path)
		}
	}
	for _, query := range []string{"a=b c", "a#b", "a\\b", "a\r\nX: y", "ä"} {
		if Fault("/v1/files", query) == "" {
			t.Errorf("the query %q is passed on", query)
		}
	}
	if fault := Fault("/v1/files/a b:c@d/é", "a=%20&b[]=1"); fault != "" {
		t.Error(fault)
	}
}

func TestAListShowsOnlyWhatIsOwned(t *testing.T) {
	const page = `{"object":"list","data":[ {"id":"a"}, {"id":"b","x":[1]},{"id":"c"} ],"first_id":"a","last_id":"c","has_more":true}`
	list := ReadList([]byte(page))
	if diff := cmp.Diff(List{IDs: []string{"a", "b", "c"}, Next: "c", Param: "after"}, list, cmp.AllowUnexported(List{}), cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "lists" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	for owned, want := range map[string]string{
		"b":  `{"object":"list","data":[{"id":"b","x":[1]}],"first_id":"b","last_id":"b","has_more":true}`,
		"ac": `{"object":"list","data":[{"id":"a"},{"id":"c"}],"first_id":"a","last_id":"c","has_more":true}`,
		"":   `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":true}`,
	} {
		set := map[string]bool{}
		for _, id := range strings.Split(owned, "") {
			set[id] = true
		}
		if got, n := list.Keep([]byte(page), set); string(got) != want || n != len(owned) {
			t.Errorf("%q: %s, %d", owned, got, n)
		}
	}
	const googles = `{"files":[{"name":"files/a"},{"noName":1}],"nextPageToken":"t"}`
	list = ReadList([]byte(googles))
	if got, n := list.Keep([]byte(googles), map[string]bool{"files/a": true}); string(got) != `{"files":[{"name":"files/a"}],"nextPageToken":"t"}` || n != 1 || list.Param != "pageToken" || list.Next != "t" {
		t.Errorf("%s, %d, %+v", got, n, list)
	}
	if anthropics := ReadList([]byte(`{"data":[{"id":"a"}],"has_more":true}`)); anthropics.Param != "after_id" {
		t.Errorf("%+v", anthropics)
	}
}

func TestWhatAnAnswerIsAboutIsRead(t *testing.T) {
	for answer, want := range map[string]string{
		`{"id":"file-1","object":"file"}`:                                  "[file-1]",
		`{"id":"batch_1","output_file_id":"file-2","error_file_id":null}`:  "[batch_1 file-2]",
		`{"file":{"name":"files/a","uri":"https://x/files/a"}}`:            "[files/a]",
		`{"name":"a plain name","id":"x"}`:                                 "[x]",
		`{"id":"x","metadata":{"id":"foreign"},"data":[{"id":"foreign"}]}`: "[x]",
		`[{"id":"x"}]`: "[]",
		`{"id":"` + strings.Repeat("x", 300) + `"}`:                                      "[]",
		`{"id":"upload_1","file":{"id":"file-3","purpose":"x"},"attributes":{"id":"y"}}`: "[upload_1 file-3]",
	} {
		if got := fmt.Sprint(Made([]byte(answer))); got != want {
			t.Errorf("%.60s: %s, want %s", answer, got, want)
		}
	}
}

func TestTheUsageAtTheEndOfAnAnswerIsRead(t *testing.T) {
	for end, want := range map[string]codec.Usage{
		`AAAA"}],"usage":{"input_tokens":10,"output_tokens":5,"input_tokens_details":{"cached_tokens":4}}}`: {InputUncached: 6, CacheRead: 4, Output: 5},
		`data: {"usage":null}` + "\n\n" + `data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}`:       {InputUncached: 3, Output: 4},
		`{"usageMetadata": {"promptTokenCount":7,"candidatesTokenCount":6,"thoughtsTokenCount":2}}`:         {InputUncached: 7, Output: 8},
		`{"text":"say \"usage\":{\"input_tokens\":9}"}`:                                                     {},
		`{"usage":{"type":"duration","seconds":9}}`:                                                         {},
		`{"usage":{"input_tokens":-5}}`:                                                                     {},
	} {
		if diff := cmp.Diff(want, Usage([]byte(end))); diff != "" {
			t.Errorf("%s: %s", end, diff)
		}
	}
}

func TestTheModelOfAFormIsReadWhereverItIs(t *testing.T) {
	const contentType = `multipart/form-data; boundary=b`
	part := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	for body, want := range map[string]string{
		part("file", "x") + part("model", "m-1") + "--b--\r\n": "m-1",
		part("file", "x") + "--b--\r\n":                        "",
		part("model", "a") + part("model", "b") + "--b--\r\n":  "error",

		part("model", "a"): "error",
		"not a form":       "",
	} {
		got, err := FormModel(contentType, []byte(body))
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q (%v)", body, got, want, err)
		}
	}
	if !IsForm(contentType) || IsForm("application/json") || IsForm("multipart/mixed; boundary=b") {
		t.Error("forms are not told from other bodies")
	}
}

func TestAQueryIsEditedWithoutTouchingTheRest(t *testing.T) {
	const query = "a=%20x&key=secret&k%65y=other&after=1"
	if got := Without(query, func(name, _ string) bool { return name == "key" }); got != "a=%20x&after=1" {
		t.Error(got)
	}
	if got := With(query, "after", "a b"); got != "a=%20x&key=secret&k%65y=other&after=a+b" {
		t.Error(got)
	}
	if got := Parameter(query, "key"); got != "secret" {
		t.Error(got)
	}
}

func TestWhatCannotBeToldApartByAccountsIsKnown(t *testing.T) {
	for _, row := range []struct {
		method, path string
		apart        bool
	}{
		{"GET", "/v1/files", true},
		{"GET", "/v1/files/x", true},
		{"POST", "/v1/images/generations", true},
		{"GET", "/v1/images", false},
		{"GET", "/v1/audio/voices", true},
		{"GET", "/v1/audio/others", false},
		{"GET", "/v1/unknown", false},
		{"POST", "/v1/unknown", false},
		{"GET", "/v1beta/models", true},
		{"GET", "/v1beta/models/x", true},
		{"GET", "/v1beta/models/x/operations", false},
		{"GET", "/v1beta/models/x/operations/y", true},
	} {
		target := At(row.path, strings.HasPrefix(row.path, "/v1beta"))
		if target.Apart(row.method) != row.apart {
			t.Errorf("%s %s: %v", row.method, row.path, !row.apart)
		}
	}
	for path, raw := range map[string]bool{"/v1/files": true, "/v1/batches": false, "/upload/v1beta/fileSearchStores/x:uploadToFileSearchStore": true, "/v1/unknown": false, "/v1/audio/transcriptions": true} {
		if target := At(path, strings.Contains(path, "v1beta")); target.TakesRaw() != raw {
			t.Errorf("%s: %v", path, !raw)
		}
	}
}
