package redact

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// shape is a credential with a prefix chosen by its issuer.
type shape struct {
	name   string
	prefix string
	class  byte // of the bytes after the prefix
	least  int  // number of those bytes
	exact  bool // least is the exact number
	mixed  bool // the bytes must be random, not words between dashes: for prefixes that other text has too
}

// shapes are the credentials recognized by prefix, as their issuers document them or as seen in use. Of two prefixes
// the longer comes first.
var shapes = []shape{
	{name: "anthropic_key", prefix: "sk-ant-api03-", class: classRun, least: 12},
	{name: "anthropic_key", prefix: "sk-ant-admin01-", class: classRun, least: 12},
	{name: "anthropic_key", prefix: "sk-ant-oat01-", class: classRun, least: 12},
	{name: "anthropic_key", prefix: "sk-ant-", class: classRun, least: 12},
	{name: "openai_key", prefix: "sk-proj-", class: classRun, least: 12},
	{name: "openai_key", prefix: "sk-svcacct-", class: classRun, least: 12},
	{name: "openai_key", prefix: "sk-admin-", class: classRun, least: 20, mixed: true},
	{name: "openrouter_key", prefix: "sk-or-v1-", class: classHex, least: 32},
	{name: "provider_key", prefix: "sk-", class: classAlnum, least: 20, mixed: true}, // OpenAI's older ones, DeepSeek's, and others'
	{name: "groq_key", prefix: "gsk_", class: classAlnum, least: 40},
	{name: "xai_key", prefix: "xai-", class: classAlnum, least: 40},
	{name: "perplexity_key", prefix: "pplx-", class: classAlnum, least: 40},
	{name: "replicate_key", prefix: "r8_", class: classAlnum, least: 37},
	{name: "huggingface_token", prefix: "hf_", class: classAlnum, least: 30},
	{name: "tavily_key", prefix: "tvly-", class: classRun, least: 24, mixed: true},
	{name: "langsmith_key", prefix: "lsv2_pt_", class: classRun, least: 32},
	{name: "langsmith_key", prefix: "lsv2_sk_", class: classRun, least: 32},
	{name: "mneme_key", prefix: "mnm_", class: classAlnum, least: 40},

	{name: "google_key", prefix: "AIza", class: classRun, least: 35, exact: true},
	{name: "google_client_secret", prefix: "GOCSPX-", class: classRun, least: 28, exact: true},
	{name: "aws_key_id", prefix: "AKIA", class: classUpper, least: 16, exact: true},
	{name: "aws_key_id", prefix: "ASIA", class: classUpper, least: 16, exact: true},
	{name: "aws_session_token", prefix: "IQoJb3JpZ2luX2Vj", class: classBase64, least: 100},

	{name: "github_token", prefix: "github_pat_", class: classRun, least: 60},
	{name: "github_token", prefix: "ghp_", class: classAlnum, least: 36},
	{name: "github_token", prefix: "gho_", class: classAlnum, least: 36},
	{name: "github_token", prefix: "ghu_", class: classAlnum, least: 36},
	{name: "github_token", prefix: "ghs_", class: classAlnum, least: 36},
	{name: "github_token", prefix: "ghr_", class: classAlnum, least: 36},
	{name: "gitlab_token", prefix: "glpat-", class: classRun, least: 20, mixed: true},
	{name: "gitlab_token", prefix: "gldt-", class: classRun, least: 20, mixed: true},
	{name: "gitlab_token", prefix: "glrt-", class: classRun, least: 20, mixed: true},
	{name: "npm_token", prefix: "npm_", class: classAlnum, least: 36, exact: true},
	{name: "pypi_token", prefix: "pypi-AgE", class: classRun, least: 50},
	{name: "rubygems_key", prefix: "rubygems_", class: classHex, least: 48, exact: true},
	{name: "docker_token", prefix: "dckr_pat_", class: classRun, least: 20, mixed: true},
	{name: "digitalocean_token", prefix: "dop_v1_", class: classHex, least: 64},
	{name: "databricks_token", prefix: "dapi", class: classHex, least: 32, exact: true},
	{name: "grafana_token", prefix: "glsa_", class: classRun, least: 32, mixed: true},
	{name: "linear_key", prefix: "lin_api_", class: classAlnum, least: 40},
	{name: "notion_token", prefix: "ntn_", class: classAlnum, least: 40},
	{name: "postman_key", prefix: "PMAK-", class: classRun, least: 59},
	{name: "newrelic_key", prefix: "NRAK-", class: classUpper, least: 27},
	{name: "shopify_token", prefix: "shpat_", class: classHex, least: 32, exact: true},
	{name: "age_key", prefix: "AGE-SECRET-KEY-1", class: classUpper, least: 58, exact: true},

	{name: "slack_token", prefix: "xoxb-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxp-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxa-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxr-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxs-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxe-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxc-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xoxd-", class: classRun, least: 20, mixed: true},
	{name: "slack_token", prefix: "xapp-", class: classRun, least: 20, mixed: true},
	{name: "stripe_key", prefix: "sk_live_", class: classAlnum, least: 20},
	{name: "stripe_key", prefix: "rk_live_", class: classAlnum, least: 20},
	{name: "stripe_key", prefix: "sk_test_", class: classAlnum, least: 20},
	{name: "stripe_key", prefix: "rk_test_", class: classAlnum, least: 20},
	{name: "stripe_secret", prefix: "whsec_", class: classAlnum, least: 30},
	{name: "twilio_key", prefix: "SK", class: classHex, least: 32, exact: true},
	{name: "mailgun_key", prefix: "key-", class: classHex, least: 32, exact: true},
}

// byFirst has the shapes by their first byte.
var byFirst = func() (t [256][]shape) {
	for _, s := range shapes {
		t[s.prefix[0]] = append(t[s.prefix[0]], s)
	}
	return t
}()

// matchShape returns the credential that begins at start, in a run that ends at end; End is 0 if there is none.
func matchShape(text []byte, start, end int) Match {
	if start >= end {
		return Match{}
	}
	if text[start] == 'e' {
		if m := matchJWT(text, start, end); m.End > 0 {
			return m
		}
	}
	for i := range byFirst[text[start]] {
		s := &byFirst[text[start]][i]
		if len(s.prefix)+s.least > end-start && s.class != classBase64 || string(text[start:min(start+len(s.prefix), end)]) != s.prefix {
			continue
		}
		if m := s.match(text, start+len(s.prefix), end); m.End > 0 {
			return m
		}
	}
	return Match{}
}

func (s *shape) match(text []byte, start, end int) Match {
	if s.class == classBase64 {
		end = len(text) // '+', '/' and '=' end a run, but not the credential
	}
	stop := stretch(text, start, end, s.class)
	switch {
	case stop-start < s.least:
		return Match{}
	case s.exact && (stop-start != s.least || stop < end && s.class != classBase64):
		return Match{}
	case s.mixed && !random(text[start:stop]):
		return Match{}
	}
	return Match{start, stop, s.name}
}

// matchJWT returns a JSON Web Token (RFC 7519): three parts in base64 separated by dots, the first two of them objects.
// The first part stays: it normally only names the signing algorithm.
func matchJWT(text []byte, start, end int) Match {
	const object = "eyJ" // {" in base64
	if !bytes.HasPrefix(text[start:end], []byte(object)) || end >= len(text) || text[end] != '.' || !bytes.HasPrefix(text[end+1:], []byte(object)) {
		return Match{}
	}
	stop := stretch(text, end+1, len(text), classRun)
	if stop < len(text) && text[stop] == '.' {
		stop = stretch(text, stop+1, len(text), classRun)
	}
	return Match{end + 1, stop, "jwt"}
}

// longestToken bounds credentials of variable length, in bytes.
const longestToken = 8 << 10

// matchContext returns the credential announced by the text before a run, or by the run itself; End is 0 if there is
// none.
func matchContext(text []byte, start, end int) Match {
	if start > 0 {
		switch text[start-1] {
		case '.', '~', '/', ':':
			if m := matchBehind(text, start, end); m.End > 0 {
				return m
			}
		}
		if m := matchAuthorization(text, start); m.End > 0 {
			return m
		}
	}
	return matchAssignment(text, start, end)
}

// matchAuthorization returns the token of "Bearer …" and "Basic …" (RFC 6750, RFC 7617). Short runs of the token,
// followed by dots, may precede the run that begins at start.
func matchAuthorization(text []byte, start int) Match {
	const short = 32
	run := start
	for low := max(0, start-short); start > low && classes[text[start-1]]&classToken != 0; {
		start--
	}
	if start == 0 || text[start-1] != ' ' {
		return Match{}
	}
	switch {
	case follows(text, start, "bearer "):
		stop := stretch(text, start, start+longestToken, classToken)
		if stop-start >= 20 && random(text[start:stop]) {
			return Match{start, stop, "bearer_token"}
		}
	case follows(text, start, "basic "):
		const longest = 512
		stop := stretch(text, start, start+longest, classBase64)
		plain, err := base64.StdEncoding.DecodeString(string(text[start:stop]))
		if err == nil && bytes.IndexByte(plain, ':') > 0 && stop > run { // otherwise it ends before the run, which is examined separately
			return Match{start, stop, "basic_credentials"}
		}
	}
	return Match{}
}

// follows reports whether words, in lower case and followed by a space, precede a place, in any case.
func follows(text []byte, at int, words string) bool {
	return at >= len(words) && text[at-2]|0x20 == words[len(words)-2] && strings.EqualFold(string(text[at-len(words):at]), words)
}

// behind are credentials whose run follows a separator that is part of their shape.
var behind = []struct {
	name, before string
	class        byte
	least        int
}{
	{"sendgrid_key", "SG.", classToken, 60},
	{"google_token", "ya29.", classToken, 30},
	{"vault_token", "hvs.", classRun, 24},
	{"vault_token", "hvb.", classRun, 24},
	{"doppler_token", "dp.pt.", classAlnum, 40},
}

func matchBehind(text []byte, start, end int) Match {
	for _, b := range behind {
		if start < len(b.before) || string(text[start-len(b.before):start]) != b.before {
			continue
		}
		if stop := stretch(text, start, start+longestToken, b.class); stop-start >= b.least {
			return Match{start, stop, b.name}
		}
	}
	switch text[start-1] {
	case '~': // an Azure client secret: 3 characters, 8Q~, 34 characters
		if start >= 6 && text[start-2] == 'Q' && classes[text[start-3]]&classDigit != 0 {
			if stop := stretch(text, start, start+34, classToken); stop-start >= 31 {
				return Match{start, stop, "azure_client_secret"}
			}
		}
	case '/': // the last part of a Slack webhook
		if end-start == 24 && bytes.Contains(text[max(0, start-60):start], []byte("hooks.slack.com/services/")) {
			return Match{start, end, "slack_webhook"}
		}
	case ':': // a Telegram bot: its number, a colon, 35 characters
		if end-start == 35 && text[start] == 'A' && text[start+1] == 'A' && start >= 9 &&
			stretch(text, start-9, start-1, classDigit) == start-1 {
			return Match{start, end, "telegram_token"}
		}
	}
	return Match{}
}

// assignments are secrets without a shape of their own after names that announce them.
var assignments = []struct {
	name  string
	key   string // the end of the variable's or member's name, in lower case and without '_' and '-'
	class byte
	least int
	most  int
}{
	{"aws_secret_key", "secretaccesskey", classBase64, 40, 40},
	{"aws_secret_key", "awssecretkey", classBase64, 40, 40},
	{"azure_key", "sharedaccesskey", classBase64, 40, 90},
	{"azure_client_secret", "azureclientsecret", classToken, 30, 64},
	{"twilio_auth_token", "twilioauthtoken", classHex, 32, 32},
}

// matchAssignment returns the secret that is assigned to a name, the run: NAME=…, "name": "…", <Name>…
func matchAssignment(text []byte, start, end int) Match {
	switch text[end-1] | 0x20 { // last letters of the names
	case 'y', 't', 'n', 'l':
	default:
		return Match{}
	}
	var scratch [32]byte
	name := scratch[:0]
	for i := end - 1; i >= start && len(name) < len(scratch); i-- { // from its end, backwards
		if c := text[i]; classes[c]&classDash == 0 {
			name = append(name, c|0x20)
		}
	}
	if endsBackwards(name, "defaultendpointsprotocol") {
		return matchConnectionString(text, end)
	}
	for i := range assignments {
		a := &assignments[i]
		if !endsBackwards(name, a.key) {
			continue
		}
		value := assigned(text, end)
		stop := value
		for n := 0; n < a.most; n++ { // a slash may be escaped in JSON
			if stop+1 < len(text) && text[stop] == '\\' && text[stop+1] == '/' {
				stop++
			}
			if stop >= len(text) || classes[text[stop]]&a.class == 0 {
				break
			}
			stop++
		}
		if value > end && stop-value >= a.least && (stop == len(text) || classes[text[stop]]&a.class == 0) {
			return Match{value, stop, a.name}
		}
	}
	return Match{}
}

func endsBackwards(name []byte, key string) bool {
	if len(name) < len(key) {
		return false
	}
	for i := range len(key) {
		if name[i] != key[len(key)-1-i] {
			return false
		}
	}
	return true
}

// mostBetween is how many bytes may be between a name and its value: quotes escaped twice, spaces, the sign.
const mostBetween = 12

// assigned returns the start of the value assigned to the name that ends at end; end if there is none.
func assigned(text []byte, end int) int {
	sign := false
	for i := end; i < min(end+mostBetween, len(text)); i++ {
		switch text[i] {
		case '=', ':', '>':
			sign = true
		case ' ', '\t', '"', '\'', '\\':
		default:
			if sign {
				return i
			}
			return end
		}
	}
	return end
}

// matchConnectionString returns the key in DefaultEndpointsProtocol=…;AccountName=…;AccountKey=…
func matchConnectionString(text []byte, end int) Match {
	const (
		within = 200
		key    = "AccountKey="
	)
	n := bytes.Index(text[end:min(end+within, len(text))], []byte(key))
	if n < 0 {
		return Match{}
	}
	start := end + n + len(key)
	if stop := stretch(text, start, start+within, classBase64); stop-start >= 40 {
		return Match{start, stop, "azure_key"}
	}
	return Match{}
}
