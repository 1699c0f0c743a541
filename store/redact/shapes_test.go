package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/redact"
)

// The credentials here are made up, and put together when the tests run: nothing in this file has the shape of one.
const (
	alnum  = "a8Kd03mZq7Lw5Xc2Vb9Nf6Hg4Js1Tr0Yu3Pi7Oe2Ga5Dk8Sx6Cz1Mv4Bn9QwErTy"
	digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	upper  = "Z3KQ7MWX2PLR9TVB4NHC8DGF5JSY6EAU"
)

func body(n int) string { return strings.Repeat(alnum, n/len(alnum)+1)[:n] }

// credential is one that has to be found: what stays of it, and what is masked.
type credential struct {
	name         string
	kept, secret string
}

func credentials() []credential {
	pem := func(label, lineEnd string) credential {
		lines := strings.Join([]string{body(64), body(64), body(30) + "=="}, lineEnd)
		return credential{"private_key", "-----BEGIN " + label + "-----", lineEnd + lines + lineEnd}
	}
	jwt := "ey" + "J" + base64.RawURLEncoding.EncodeToString([]byte(`"alg":"RS256","typ":"JWT"}`))
	claims := "ey" + "J" + base64.RawURLEncoding.EncodeToString([]byte(`"sub":"1234567890","name":"A"}`))
	return []credential{
		{"anthropic_key", "sk-" + "ant-api03-", body(40) + "-" + body(44) + "-" + body(8) + "AA"},
		{"anthropic_key", "sk-" + "ant-oat01-", body(80)},
		{"openai_key", "sk-" + "proj-", body(40) + "_" + body(30) + "-" + body(50)},
		{"openai_key", "sk-" + "svcacct-", body(80)},
		{"provider_key", "sk" + "-", body(48)},
		{"provider_key", "sk" + "-", digits[:32]},
		{"openrouter_key", "sk-" + "or-v1-", digits},
		{"groq_key", "gsk" + "_", body(52)},
		{"xai_key", "xai" + "-", body(80)},
		{"huggingface_token", "hf" + "_", body(34)},
		{"mneme_key", "mnm" + "_", body(49)},
		{"google_key", "AI" + "za", "Sy" + body(33)},
		{"google_client_secret", "GOC" + "SPX-", body(28)},
		{"google_token", "ya" + "29.", "a0" + body(60) + "-" + body(40)},
		{"aws_key_id", "AK" + "IA", upper[:16]},
		{"aws_key_id", "AS" + "IA", upper[4:20]},
		{"aws_secret_key", "aws_secret_access_key = ", body(12) + "/" + body(6) + "+" + body(20)},
		{"aws_secret_key", "AWS_SECRET_ACCESS_KEY=", body(40)},
		{"github_token", "gh" + "p_", body(36)},
		{"github_token", "gh" + "o_", body(36)},
		{"github_token", "gh" + "u_", body(36)},
		{"github_token", "gh" + "s_", body(36)},
		{"github_token", "gh" + "r_", body(36)},
		{"github_token", "github" + "_pat_", body(22) + "_" + body(59)},
		{"gitlab_token", "gl" + "pat-", body(20)},
		{"slack_token", "xo" + "xb-", "1234567890-1234567890123-" + body(24)},
		{"slack_token", "xo" + "xp-", "1234567890-1234567890-1234567890-" + digits[:32]},
		{"slack_webhook", "https://hooks.slack.com/services/" + "T01234567/B01234567/", body(24)},
		{"stripe_key", "sk" + "_live_", body(24)},
		{"stripe_key", "rk" + "_live_", body(24)},
		{"npm_token", "np" + "m_", body(36)},
		{"pypi_token", "py" + "pi-AgE", "IcHlwaS5vcmc" + body(120)},
		{"sendgrid_key", "S" + "G.", body(22) + "." + body(43)},
		{"twilio_key", "S" + "K", digits[:32]},
		{"twilio_auth_token", "TWILIO_AUTH_TOKEN=", digits[:32]},
		{"telegram_token", "123456789:", "AA" + body(33)},
		{"vault_token", "hv" + "s.", body(90)},
		{"azure_client_secret", "ab~8" + "Q~", body(34)},
		{"azure_key", "DefaultEndpointsProtocol=https;AccountName=store;AccountKey=", body(86) + "=="},
		{"jwt", jwt + ".", claims + "." + body(43)},
		{"bearer_token", "Authorization: Bearer ", body(10) + "." + body(40)},
		{"bearer_token", "authorization: bearer ", body(40)},
		{"basic_credentials", "Authorization: Basic ", base64.StdEncoding.EncodeToString([]byte("operator:correct horse"))},
		{"url_password", "postgres://app:", "correct-horse"},
		{"url_password", "https://user:", "p@ss"},
		pem("PRIVATE KEY", "\n"), pem("RSA PRIVATE KEY", "\n"), pem("EC PRIVATE KEY", "\r\n"),
		pem("OPENSSH PRIVATE KEY", "\n"), pem("ENCRYPTED PRIVATE KEY", "\n"), pem("PGP PRIVATE KEY BLOCK", "\n"),
	}
}

// after is what makes the credential whole where something has to follow it.
func (c credential) after() string {
	switch c.name {
	case "url_password":
		return "@db.example.com:5432/app"
	case "private_key":
		return "-----END PRIVATE KEY-----"
	case "azure_key":
		return ";EndpointSuffix=core.windows.net"
	}
	return ""
}

func builtin(t testing.TB) *redact.Redactor {
	t.Helper()
	r, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// asJSON is the body of a JSON string, escaped depth times, without its quotes.
func asJSON(t testing.TB, text string, depth int) string {
	t.Helper()
	for range depth {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(text); err != nil {
			t.Fatal(err)
		}
		text = strings.TrimSuffix(b.String(), "\n")
		text = text[1 : len(text)-1]
	}
	return text
}

func TestCredentialsAreMaskedWhereverTheyStand(t *testing.T) {
	r := builtin(t)
	for _, c := range credentials() {
		for place, wrap := range map[string][2]string{
			"in prose":       {"the key is ", " and it works"},
			"in a sentence":  {"use \"", "\"."},
			"in a line":      {"first line\n", "\nlast line"},
			"in a file":      {"export KEY=", "\n"},
			"in markup":      {"<key>", "</key>"},
			"by itself":      {"", ""},
			"behind a tab":   {"key:\t", "\t# mine"},
			"in a JSON file": {"{\"key\": \"", "\"}"},
			"in code quotes": {"`", "`"},
		} {
			for depth := range 4 {
				text := asJSON(t, wrap[0]+c.kept+c.secret+c.after()+wrap[1], depth)
				masked := []byte(text)
				matches := r.Mask(masked)
				if len(matches) != 1 || matches[0].Name != c.name {
					t.Errorf("%s %s, escaped %d times: found %v in %q", c.name, place, depth, matches, text)
					continue
				}
				if len(masked) != len(text) {
					t.Errorf("%s %s: the mask has another length", c.name, place)
				}
				for part := range strings.FieldsFuncSeq(c.secret, func(r rune) bool { return r == '\n' || r == '\r' }) {
					if strings.Contains(string(masked), part) {
						t.Errorf("%s %s, escaped %d times: %q still stands in %q", c.name, place, depth, part, masked)
					}
				}
				if !strings.Contains(string(masked), asJSON(t, c.kept, depth)) {
					t.Errorf("%s %s, escaped %d times: nothing tells any more what it was: %q", c.name, place, depth, masked)
				}
				if depth > 0 && !json.Valid([]byte(`"`+string(masked)+`"`)) {
					t.Errorf("%s %s, escaped %d times: no JSON any more: %q", c.name, place, depth, masked)
				}
			}
		}
	}
}

func TestWhatOnlyLooksLikeACredentialStays(t *testing.T) {
	r := builtin(t)
	random := strings.Repeat(base64.StdEncoding.EncodeToString([]byte(alnum+digits+upper)), 200)
	for _, text := range []string{
		"commit 3f786850e387550fdab836ed7e6dc881de23001b",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"b3f1c9de-8a44-4b7f-9d53-0c9a1e6f2b7d", "exch_01hv3k9c2m5n7p8q9r0s1t2v3w", "toolu_01A09q90qw90lq917835lq9", "msg_01XFDUDYJgAACzvnptvVoYEL",
		"resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b", "call_abc123def456ghi789jkl012", "chatcmpl-9nKQwErTyUiOpAsDfGhJkLzXcVbNm",
		"data:image/png;base64," + random,
		"if strings.HasPrefix(key, \"sk-\") { return ProviderOpenAI }",
		".sk-fading-circle .sk-circle12:before { animation-delay: -0.1s }", "class=\"sk-cube-grid-container-animation-2\"",
		"set OPENAI_API_KEY to your key, which begins with sk-proj-", "sk-...", "sk-ant-...", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"task-1234-description-of-the-work", "risk-based-authentication-20-policies",
		"github_pat_ and ghp_ are prefixes of tokens", "npm_config_registry=https://registry.npmjs.org/", "npm_package_devDependencies_typescript_version",
		"AKIA is the prefix", "AKIAIOSFODNN", "eyJhbGciOiJIUzI1NiJ9 is a header", "hf_hub_download(repo_id=\"org/model\", filename=\"x\")",
		"Bearer authentication-and-authorization", "Authorization: Bearer $TOKEN", "Authorization: Bearer ${OPENAI_API_KEY_FOR_PRODUCTION_2}",
		"Basic authentication", "Authorization: Basic <credentials-in-base64>", "aws_secret_access_key = <your key>",
		"git@github.com:mnemeproxy/mneme.git", "https://example.com/a:b@c", "mailto:someone@example.com", "http://localhost:8080/@scope/name",
		"postgres://app:${DB_PASSWORD}@db/app", "postgres://app:****@db/app", "https://user@example.com/",
		"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "-----BEGIN PUBLIC KEY-----\n" + body(64) + "\n-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\n" + body(64) + "\n-----END CERTIFICATE-----",
		"sk_live_ and sk_test_ are Stripe's", "SKU1234567890", "const SKEYWORD_THAT_IS_QUITE_LONG = 1", "the key-value-store-with-32-shards",
		"xoxo-gossip-girl-season-six-episode-9", "glpat-prefixed-tokens-are-personal", "dapibus ac facilisis in egestas",
	} {
		if matches := r.Mask([]byte(text)); len(matches) > 0 {
			t.Errorf("%q: found %v", text[:min(len(text), 100)], matches)
		}
	}
}

func TestWhatIsAnnouncedTwiceIsMaskedOnce(t *testing.T) {
	text := []byte("Authorization: Bearer sk-" + "proj-" + body(60))
	matches := builtin(t).Mask(text)
	if len(matches) != 1 || matches[0].Name != "openai_key" {
		t.Fatalf("found %v", matches)
	}
}

func TestAPrivateKeyThatBreaksOffIsMasked(t *testing.T) {
	text := []byte("-----BEGIN " + "RSA PRIVATE KEY-----\\n" + body(64) + "\\n" + body(20))
	r := builtin(t)
	r.Mask(text)
	if bytes.Contains(text, []byte(body(20))) {
		t.Errorf("still there: %q", text)
	}
}
