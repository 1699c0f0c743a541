package postgrestest

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Explained returns the URL of a database with which the server notes in its log what each statement reads.
func (s *Server) Explained(database string) string {
	const note = "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on" +
		" -c auto_explain.log_timing=off -c auto_explain.log_buffers=on -c auto_explain.log_format=json -c auto_explain.log_nested_statements=on"
	return database + "&options=" + strings.ReplaceAll(url.QueryEscape(note), "+", "%20")
}

// Buffers returns how many buffers each statement has read or found in memory while do ran, by the statement's text: the median of its runs,
// since one of them may do what others have put off. The database is one of [Server.Explained].
func (s *Server) Buffers(t testing.TB, database string, do func()) map[string]int {
	t.Helper()
	before, err := os.Stat(s.log())
	if err != nil {
		t.Fatal(err)
	}
	do()
	log, err := os.ReadFile(s.log())
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	runs := make(map[string][]int)
	for entry := range bytes.SplitSeq(log[before.Size():], []byte("\n"+path.Base(at.Path)+"|LOG:")) {
		_, plan, isPlan := bytes.Cut(entry, []byte("  plan:\n"))
		if !isPlan {
			continue
		}
		var explained struct {
			Text string `json:"Query Text"`
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.NewDecoder(bytes.NewReader(plan)).Decode(&explained); err != nil {
			t.Fatalf("%v in what the server has noted: %s", err, plan)
		}
		runs[explained.Text] = append(runs[explained.Text], explained.Plan.Hit+explained.Plan.Read)
	}
	buffers := make(map[string]int)
	for statement, of := range runs {
		slices.Sort(of)
		buffers[statement] = of[len(of)/2]
	}
	return buffers
}
