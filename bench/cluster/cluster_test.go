//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// The test binary is also the command.
func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const commandVariable = "MNEME_TEST_CLUSTER_COMMAND"

func TestTheClusterServesAndEndsCleanly(t *testing.T) {
	dir := t.TempDir() // which only its owner can enter
	program := filepath.Join(dir, "mneme")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cluster := exec.CommandContext(t.Context(), os.Args[0], "-mneme", program, "-dir", filepath.Join(dir, "cluster"), "-centres", "2")
	cluster.Env = append(os.Environ(), commandVariable+"=1")
	cluster.Stderr = os.Stderr
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	var found installation
	file := filepath.Join(dir, "cluster", "cluster.json")
	var exit error // of the process, once it has ended
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit = cluster.Wait()
	}()
	defer func() {
		if t.Failed() {
			_ = cluster.Process.Signal(syscall.SIGTERM)
			<-ended
			for _, name := range []string{"broker-1", "broker-2", "broker-3", postgresName, s3Name, "centre", "centre-2", "edge-1", "edge-2", "worker-1"} {
				log, _ := os.ReadFile(filepath.Join(dir, "cluster", name+".log"))
				t.Logf("%s:\n%s", name, log)
			}
		}
	}()
	eventually(t, "cluster.json is there", func() bool {
		select {
		case <-ended:
			t.Fatal("the cluster has ended")
		default:
		}
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &found) == nil
	})
	url := map[string]string{}
	for _, n := range found.Nodes {
		url[n.Name] = n.URL
	}
	if postgrestest.Installed() && url[postgresName] == "" {
		t.Error("Postgres is installed, and cluster.json names none")
	}
	if url[postgresName] != "" {
		eventually(t, "the worker is ready", func() bool {
			status, _ := call(t, http.MethodGet, url["worker-1"]+"/readyz", "", "")
			return status == http.StatusOK
		})
	}
	for _, edge := range []string{"edge-1", "edge-2"} {
		body := `{"model":"gpt-5","messages":[{"role":"user","content":"the word at ` + edge + ` is sesame"}]}`
		if status, text := call(t, http.MethodPost, url[edge]+"/v1/chat/completions", found.Key, body); status != http.StatusOK {
			t.Fatalf("%s answers %d: %s", edge, status, text)
		}
	}
	for _, centre := range []string{"centre", "centre-2"} {
		eventually(t, "one search at "+centre+" finds what both edges recorded", func() bool {
			_, text := call(t, http.MethodPost, url[centre]+"/v1/memory/search", found.Key, `{"query":"sesame"}`)
			return strings.Contains(text, "at edge-1") && strings.Contains(text, "at edge-2")
		})
	}
	eventually(t, "the centre recalls what an edge recorded", func() bool {
		_, text := call(t, http.MethodPost, url["centre"]+"/v1/memory/recall", found.Key, `{"prompt":"which word was it at edge-1: sesame?","scope":"account"}`)
		return strings.Contains(text, "the word at edge-1 is sesame")
	})
	bodies(t, filepath.Join(dir, "cluster"), url, found.Key)
	for _, n := range found.Nodes {
		if n.Name == "edge-2" || n.Name == "broker-3" {
			comesBack(t, file, n)
		}
	}
	secret := createKey(t, program, dir, "--name", "revoked")
	for _, edge := range []string{"edge-1", "edge-2"} {
		eventually(t, "a key made at the centre opens "+edge, func() bool {
			status, _ := call(t, http.MethodGet, url[edge]+"/v1/models", secret, "")
			return status == http.StatusOK
		})
	}
	sessions := map[string]bool{}
	for turn, edge := range []string{"edge-1", "edge-2", "edge-1"} {
		body := `{"model":"gpt-5","messages":[{"role":"user","content":"turn ` + strings.Repeat("again ", turn) + `"}]}`
		status, text, session := ask(t, http.MethodPost, url[edge]+"/v1/chat/completions", secret, body, "X-Service-Chat-Key", "one conversation")
		if status != http.StatusOK {
			t.Fatalf("%s answers %d: %s", edge, status, text)
		}
		sessions[session] = true
	}
	eventually(t, "a conversation over both edges is one session", func() bool {
		_, text := call(t, http.MethodGet, url["centre"]+"/v1/memory/sessions?chat_key=one+conversation", found.Key, "")
		var page struct {
			Data []struct {
				ID        string `json:"id"`
				Exchanges int    `json:"exchanges"`
			} `json:"data"`
		}
		return json.Unmarshal([]byte(text), &page) == nil && len(page.Data) == 1 && page.Data[0].Exchanges == 3 && sessions[page.Data[0].ID]
	})
	if len(sessions) != 1 {
		t.Errorf("the edges' answers name the sessions %v", sessions)
	}
	body := `{"model":"claude-sonnet-4-5","input":"the word of the first turn is barley"}`
	status, text, session := ask(t, http.MethodPost, url["edge-1"]+"/v1/responses", secret, body)
	var first struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(text), &first); err != nil || status != http.StatusOK || first.ID == "" {
		t.Fatalf("edge-1 answers %d: %s (%v)", status, text, err)
	}
	body = fmt.Sprintf(`{"model":"claude-sonnet-4-5","previous_response_id":%q,"input":"and what was it?"}`, first.ID)
	if status, text, next := ask(t, http.MethodPost, url["edge-2"]+"/v1/responses", secret, body); status != http.StatusOK || next != session {
		t.Fatalf("edge-2 does not go on from what edge-1 answered, %d in session %s, which was %s: %s", status, next, session, text)
	}
	edges := []string{url["edge-1"], url["edge-2"]}
	shareLimit(t, edges, createKey(t, program, dir, "--requests-per-minute", strconv.Itoa(sharedLimit)))
	revoke(t, program, dir, edges, secret, "revoked")
	eventually(t, "the doctor finds all parts well, also those that came back", func() bool { return examine(t, program, dir, url["centre-2"] != "") })
	adopt(t, program, dir, url["broker-1"], found.Key)
	eventually(t, "the centre finds what the adopted store holds", func() bool {
		_, text := call(t, http.MethodPost, url["centre"]+"/v1/memory/search", found.Key, `{"query":"sesame"}`)
		return strings.Contains(text, "at home")
	})
	if err := cluster.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if <-ended; exit != nil {
		t.Errorf("it ends with %v", exit)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("cluster.json names processes that have ended")
	}
	for _, n := range found.Nodes {
		if syscall.Kill(n.PID, 0) == nil {
			t.Errorf("%s, process %d, is still there", n.Name, n.PID)
		}
	}
}

// bodies checks that the centre stores bodies in the bucket, if there can be one, and reads them from there.
func bodies(t *testing.T, dir string, url map[string]string, key string) {
	t.Helper()
	if !postgrestest.Installed() || s3test.Program() == "" {
		t.Log("NOT TESTED: bodies in a bucket; install Postgres, and have make s3-server build an S3 service")
		return
	}
	if url[s3Name] == "" {
		t.Error("no S3 service is named")
	}
	packs, err := filepath.Glob(filepath.Join(dir, s3Name, bucketName, "*", "*", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Errorf("nothing is in the bucket: %v", err)
	}
	var page struct{ Data []struct{ ID string } }
	if _, text := call(t, http.MethodGet, url["centre"]+"/v1/memory/exchanges", key, ""); json.Unmarshal([]byte(text), &page) != nil || len(page.Data) != 2 {
		t.Fatalf("the centre has the exchanges %s", text)
	}
	for _, x := range page.Data {
		_, text := call(t, http.MethodGet, url["centre"]+"/v1/memory/exchanges/"+x.ID+"?include=raw_request,raw_response", key, "")
		if !strings.Contains(text, "is sesame") || !strings.Contains(text, "chat.completion") {
			t.Errorf("the centre gives %s without its bodies: %s", x.ID, text)
		}
	}
}

var numbered = regexp.MustCompile(`^\w+( \d+\b)?`) // a node, without the name of its machine

// examine runs the doctor of an edge on all nodes; several says that there are two centres.
func examine(t *testing.T, program, dir string, several bool) (well bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, "doctor", "--cluster", "--json", "--config", filepath.Join(dir, "cluster", "edge-1.yaml"))
	command.Env = os.Environ()
	for _, name := range []string{"MNEME_CLUSTER_KEY", "MNEME_MASTER_KEY"} {
		text, err := os.ReadFile(filepath.Join(dir, "cluster", strings.ToLower(name)))
		if err != nil {
			t.Fatal(err)
		}
		command.Env = append(command.Env, name+"="+string(text))
	}
	out, _ := command.Output() // it may find problems of this machine, too
	var findings []struct{ Check, State, Found string }
	if err := json.Unmarshal(out, &findings); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	well = true
	complain := func(what string, detail any) {
		t.Logf("the doctor says of %s: %+v", what, detail)
		well = false
	}
	states := map[string]string{}
	led := map[string]bool{} // by what the last words about a centre are
	for _, f := range findings {
		name := numbered.FindString(f.Check)
		states[name] = f.State
		if name == "cluster" {
			complain(name, f)
		}
		if strings.HasPrefix(name, "centre ") {
			led[f.Found[strings.LastIndex(f.Found, ";"):]] = true
		}
	}
	nodes := []string{"edge 2", "edge 3", "centre 1", "centre 65002"}
	if !several {
		nodes = []string{"edge 2", "edge 3", "centre"}
	}
	for _, node := range nodes {
		if states[node] != "good" {
			complain(node, findings)
		}
	}
	if several && (!led["; leads"] || !led["; does not lead"]) {
		complain("which centre leads", findings)
	}
	return well
}

const sharedLimit = 60 // requests a minute

// shareLimit has sixty callers use one key on all edges at once, twice each.
func shareLimit(t *testing.T, edges []string, secret string) {
	t.Helper()
	for _, edge := range edges {
		eventually(t, "a key with a limit opens "+edge, func() bool {
			status, _ := call(t, http.MethodGet, edge+"/v1/models", secret, "")
			return status == http.StatusOK
		})
	}
	const callers = 60
	var (
		let     atomic.Int64
		calling sync.WaitGroup
	)
	began := time.Now()
	for n := range callers {
		calling.Go(func() {
			for range 2 {
				body := `{"model":"gpt-5","messages":[{"role":"user","content":"let me in"}]}`
				if status, _ := call(t, http.MethodPost, edges[n%len(edges)]+"/v1/chat/completions", secret, body); status == http.StatusOK {
					let.Add(1)
				}
			}
		})
	}
	calling.Wait()
	refilled := int64(time.Since(began).Minutes() * sharedLimit)
	t.Logf("of %d requests of %d callers on two edges %d were let in; the limit is %d a minute, of which %d came back meanwhile",
		2*callers, callers, let.Load(), sharedLimit, refilled)
	if most := sharedLimit + sharedLimit/4 + refilled + 1; let.Load() > most || let.Load() == 0 {
		t.Errorf("%d requests were let in, at most %d may be", let.Load(), most)
	}
}

// revoke revokes the key of a name at the centre, and checks that no edge accepts it after the promised ten seconds. Time in which
// this machine stalled does not count.
func revoke(t *testing.T, program, dir string, edges []string, secret, name string) {
	t.Helper()
	atCentre := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, append(args, "--data", filepath.Join(dir, "cluster", "centre"))...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	id := regexp.MustCompile(`(?m)^(key_\w+).*\b` + name + `\b`).FindStringSubmatch(atCentre("key", "list"))
	if id == nil {
		t.Fatal("the key is not listed at the centre")
	}
	atCentre("key", "revoke", id[1])
	const each = 20 * time.Millisecond
	opened := slices.Clone(edges)
	began, stood := time.Now(), time.Duration(0)
	for len(opened) > 0 {
		at := time.Now()
		opened = slices.DeleteFunc(opened, func(edge string) bool {
			status, _ := call(t, http.MethodGet, edge+"/v1/models", secret, "")
			return status == http.StatusUnauthorized
		})
		time.Sleep(each)
		stood += max(time.Since(at)-time.Second, 0)
		if took := time.Since(began) - stood; took > 10*time.Second {
			t.Fatalf("a revoked key opens %v after %v", opened, took)
		}
	}
	t.Logf("a revoked key was refused by every edge after %v", time.Since(began).Round(time.Millisecond))
}

// createKey creates a key at the centre; on an edge the command refuses, and points to the centre.
func createKey(t *testing.T, program, dir string, args ...string) (secret string) {
	t.Helper()
	create := func(node string) (string, error) {
		args := append([]string{"key", "create", "--account", "default", "--data", filepath.Join(dir, "cluster", node)}, args...)
		command := exec.CommandContext(t.Context(), program, args...)
		var complaint bytes.Buffer
		command.Stderr = &complaint
		out, err := command.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, complaint.String())
		}
		return strings.TrimSpace(string(out)), err
	}
	if _, err := create("edge-1"); err == nil || !strings.Contains(err.Error(), "centre") {
		t.Errorf("a key is created on an edge: %v", err)
	}
	secret, err := create("centre")
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// comesBack kills a part, which is started again at the address that it had.
func comesBack(t *testing.T, file string, killed *node) {
	t.Helper()
	process, err := os.FindProcess(killed.PID)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, killed.Name+" is back", func() bool {
		var now installation
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &now) != nil {
			return false
		}
		again := slices.IndexFunc(now.Nodes, func(n *node) bool { return n.Name == killed.Name && n.PID != killed.PID && n.URL == killed.URL })
		if again < 0 {
			return false
		}
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", killed.URL[strings.LastIndex(killed.URL, "/")+1:])
		return err == nil && connection.Close() == nil
	})
}

// adopt records an exchange on a server outside the cluster, and has the centre adopt its store.
func adopt(t *testing.T, program, dir, broker, key string) {
	t.Helper()
	secrets := map[string]string{"MNEME_API_KEY": key}
	text, err := os.ReadFile(filepath.Join(dir, "cluster", "mneme_cluster_key"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["MNEME_CLUSTER_KEY"] = string(text)
	data := filepath.Join(dir, "home")
	single := installation{}
	defer func() {
		if err := single.stop(); err != nil {
			t.Error(err)
		}
	}()
	n, err := startNode(t.Context(), dir, "single", secrets, program, "serve", "--simulate", "--quiet", "--listen", "127.0.0.1:0", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	single.Nodes = append(single.Nodes, n)
	body := `{"model":"gpt-5","messages":[{"role":"user","content":"the word at home is sesame"}]}`
	if status, text := call(t, http.MethodPost, n.URL+"/v1/chat/completions", key, body); status != http.StatusOK {
		t.Fatalf("it answers %d: %s", status, text)
	}
	if err := single.stop(); err != nil {
		t.Fatal(err)
	}
	single.Nodes = nil
	file := filepath.Join(dir, "adopt.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "cluster: {nats: [%q], node: 9}\n", broker), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "centre", "adopt", "--config", file, "--data", data)
	command.Env = append(os.Environ(), "MNEME_CLUSTER_KEY="+secrets["MNEME_CLUSTER_KEY"])
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the centre has confirmed 1 exchange of") {
		t.Fatalf("centre adopt: %v\n%s", err, out)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * timeout); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func call(t *testing.T, method, url, key, body string) (status int, text string) {
	t.Helper()
	status, text, _ = ask(t, method, url, key, body)
	return status, text
}

// ask also returns the session that the answer names.
func ask(t *testing.T, method, url, key, body string, headers ...string) (status int, text, session string) {
	t.Helper()
	status, header, text, err := send(t.Context(), method, url, key, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return status, text, header.Get("X-Service-Session-Id")
}

// send returns an error if no complete answer arrives.
func send(ctx context.Context, method, url, key, body string, headers ...string) (status int, header http.Header, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(content), err
}
