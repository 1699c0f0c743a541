package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/redact"
)

// The credentials here are made up, and put together when the tests run: nothing in this file has the shape of one.
const (
	alnum   = "a8Kd03mZq7Lw5Xc2Vb9Nf6Hg4Js1Tr0Yu3Pi7Oe2Ga5Dk8Sx6Cz1Mv4Bn9QwErTy"
	digits  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	letters = "qWjXvLdRtZkPnYbGsMhCfJwTxQzKgBvNpHrDmSlFcVyEuIoAa"
	upper   = "Z3KQ7MWX2PLR9TVB4NHC8DGF5JSY6EAU"
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
	prefixed := func(prefix string) credential { return pem("OPENSSH PRIVATE KEY", "\n"+prefix) }
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
		prefixed("id_rsa:2:"), prefixed("/home/me/.ssh/id_ed25519-2:17:"), prefixed("    12→"), prefixed("    12\t"), prefixed("> "), prefixed("+"),
		{"provider_key", "sk" + "-", letters[:48]},
		{"api_key", "curl -H 'x-api-key: ", body(32)},
		{"api_key", `"api_key": "`, body(24)},
		{"api_key", `{"apiKey":"`, "b3f1c9de-8a44-4b7f-9d53-0c9a1e6f2b7d"},
		{"api_key", "My API key: ", body(20)},
		{"api_key", "MAPS_APIKEY := ", letters[:44]},
		{"access_key", "access-key=", upper[:20]},
		{"private_key", "private_key: ", "0x" + digits[:64]},
		{"token", `config["auth_token"] = "`, body(18)},
		{"token", "?page=2&token=", digits[:40]},
		{"token", "//registry.example.com/:_authToken=", body(36)},
		{"secret", "client_secret => '", body(8) + "/" + body(10) + "+=="},
		{"secret", "export JWT_SECRET=", "t0p!" + body(12) + "$x"},
		{"authorization", "Authorization: token ", digits[:40]},
		{"authorization", "'Authorization': 'ApiKey ", body(30)},
		{"authorization", `"authorization": "`, body(30)},
		{"authorization", "Authorization: Basic ", base64.StdEncoding.EncodeToString([]byte("me:secret"))},
		{"password", "DB_PASSWORD=", "Tr0ub4dor&3"},
		{"password", "PGPASSWORD='", "x9kq;(7b"},
		{"password", "password: ", "hunter2"},
		{"password", "passwd = \"", "correct-horse-battery-9"},
		{"password", "--db-password=", "q7Zp!mm2"},
		{"password", "SMTP_PASS=", "s3ndM4il"},
		{"password", "Server=db;User Id=sa;Pwd=", "V3rySecret!"},
		pem("OPENSSH PRIVATE KEY", "\n"), pem("ENCRYPTED PRIVATE KEY", "\n"), pem("PGP PRIVATE KEY BLOCK", "\n"),
	}
}

// after is what makes the credential whole where something has to follow it.
func (c credential) after() string {
	for _, quote := range []string{`"`, "'"} {
		if strings.Count(c.kept, quote)%2 == 1 {
			return quote
		}
	}
	switch c.name {
	case "url_password":
		return "@db.example.com:5432/app"
	case "private_key":
		if !strings.Contains(c.kept, "-----") {
			return ""
		}
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

// Lines in which a name announces a secret, and none follows: a variable, a call, a placeholder, a word, a reference.
var named = []string{
	"password: string", "password?: string;", "  password: null", "password = true", "the password is wrong", "Password: at least eight letters",
	`api_key = os.environ["OPENAI_API_KEY_2"]`, `apiKey: process.env.API_KEY_2`, `api_key=os.getenv("KEY1")`, "token := lexer.Next()",
	"token = tokens[12]", "const token2 = parser.token2;", `token := "identifier"`, `"max_tokens": 4096`, "tokens: 182736", "token: 182736",
	`{"token":" hello","logprob":-0.31725305,"bytes":[32,104]}`, `"token": "token_v2"`, `"type": "token", "token": "user_2_name"`,
	"secretName: my-app-tls-2024", "secret: my-app-tls-2024", "secret: old-cert", "--mount=type=secret,id=npmrc2", "secret = vault:secret/data/db#key1",
	"Authorization: Bearer $MNEME_KEY", "Authorization: token ${GITHUB_TOKEN_2}", "Authorization: Basic <base64 of user:password1>",
	"Authorization: Bearer your-api-key-1", `"Authorization": "Bearer " + token1`, "authorization: oauth2-proxy", "authorization: required, see RFC 7235",
	"csrf_token: {{ token }}", "token: ${{ secrets.GITHUB_TOKEN }}", "password: {{ .Values.db.password1 }}", "password=%s user=%s", "password=$1", "DB_PASSWORD=${DB_PASSWORD:-x1}",
	"DB_PASSWORD=$DB_PASSWORD_2", "DB_PASSWORD=", "DB_PASSWORD=\nDB_NAME=db12345", "password: <your-password-1>", "password: your_password_1", "password: xxxxxxxx1", "password: ********", "api_key: sk-...", `"password": "","user":"root1234"`,
	"password = hash_password(password1)", "login(user1, password=password1)", "password: user.password2,", "password = req.body.password1", "db.connect(password=args1.value)",
	"grep: /etc/passwd:1:root:x:0:0:root:/root:/bin/bash", "PWD=/home/user1/src", `"oldpwd": "/srv/www2"`, "'password' => 'required|min:8|max:64'", `"password": "^(?=.*[0-9])(?=.*[a-z]).{8,}$"`,
	"    --- PASS: TestAddrStringAllocs/ipv4 (0.00s)", "PASS: test-suite-12", "\nPASS: zone42\n", "body: `{\"access_token\":\"`+x509ExchangeSyntheticToken+`\"}`", "PublicKeyToken=31bf3856ad364e35", "secret = googleanalyticsadminv1betameasurementprotocolsecret",
	"token: UserAgentFeatureCredentialsEnvVarsStsWebIDTokenSource,", "bypass: rule12345", "compass=north12345", "private_key: ./certs/server1.key", "private_key_path = /etc/ssl/private/key1.pem", "public_key: " + alnum,
	"key_id: 01HZX3K9C2M5N7P8Q9R0S1T2V3", "exch_06hv3k9c2m5n7p8q9r0s1t2v3w", "commit 3f786850e387550fdab836ed7e6dc881de23001b", "cache_key: 3f786850e387550fdab836ed7e6dc881de23001b",
	`"nextPageToken": "CAUQAAabc123XYZ987def"`, "token: https://example.com/oauth2/token?grant=1", "https://docs.example.com/api/secret:rotate2", "if (token === TokenKind.Number2) {",
	"var passwordPattern2 = regexp.MustCompile(`x`)", "token:12:func Next() Token", "secret_key_base: <%= ENV['SECRET_1'] %>", "password: !Ref DatabasePassword1", "password: ENC[AES256_GCM,data:abc1]",
	"secret: AbstractSingletonProxyFactoryBeanConfigurationProvider", "sk-averylongkebabcasewordthatnobodywouldwriteinthisway", `"password": "must hold 8 letters"`, "the secret: 3 eggs, 200g flour", "Token: a word of 2 to 12 letters", "access_token = session2.access_token",
	"password: &[u8; 32]", "fn check(password: &str, token: Option<Token2>) {", "api_key: Optional[str] = None", "password := r.FormValue(\"password1\")", "secret: Buffer.from(x1, 'hex')",
}

// A row of base64 belongs to a key where something stands before it on its own line, and not where it comes later.
func TestTheTextAfterAPrivateKeyThatBreaksOffStays(t *testing.T) {
	const after = "... and so on.\nIt lies in /srv/keys.\n/usr/local/share/applications/of/this/machine/keys\nIt is (mine).\n"
	text := []byte("id_rsa:1:-----BEGIN " + "RSA PRIVATE KEY-----\nid_rsa:2:" + body(64) + "\nid_rsa:3:" + body(64) + "\n" + after)
	builtin(t).Mask(text)
	if bytes.Contains(text, []byte(body(20))) || !bytes.HasSuffix(text, []byte(after)) {
		t.Errorf("got %s", text)
	}
}

func TestWhatANameAnnouncesAndIsNoSecretStays(t *testing.T) {
	r := builtin(t)
	for _, line := range named {
		for depth := range 4 {
			text := []byte(asJSON(t, line, depth))
			if matches := r.Mask(text); len(matches) > 0 {
				t.Errorf("escaped %d times: %v in %q", depth, matches, text)
			}
		}
	}
}

// What is masked ends where the string of JSON ends that the value stands in.
func TestTheMaskOfANamedSecretEndsWithItsString(t *testing.T) {
	r := builtin(t)
	for text, want := range map[string]string{
		`{"password":"ab1\\","user":"root1"}`:                         `{"password":"ab1\\","user":"root1"}`,
		`{"password":"abc\"def12\\","user":"root1"}`:                  `{"password":"***\"*****\\","user":"root1"}`,
		`{"a":"{\"password\":\"abc\\\"def12\"}","user":"root1"}`:      `{"a":"{\"password\":\"***\\\"*****\"}","user":"root1"}`,
		`{"secret":"a8Kd03mZq7\/Lw5Xc2Vb","user":"root1"}`:            `{"secret":"**********\/********","user":"root1"}`,
		`{"text":"password: 'a8Kd03mZ","user":"it's root1"}`:          `{"text":"password: '********","user":"it's root1"}`,
		`{"text":"-H x-api-key:a8Kd03mZq7Lw5Xc2","user":"it's root"}`: `{"text":"-H x-api-key:****************","user":"it's root"}`,
	} {
		got := []byte(text)
		if r.Mask(got); string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// What is known by its prefix keeps it, also behind a name.
func TestANamedSecretWithAShapeKeepsItsName(t *testing.T) {
	text := []byte(`{"api_key":"sk-` + "ant-api03-" + body(60) + `"}`)
	matches := builtin(t).Mask(text)
	if want := `{"api_key":"sk-` + "ant-api03-" + strings.Repeat("*", 60) + `"}`; len(matches) != 1 || matches[0].Name != "anthropic_key" || string(text) != want {
		t.Errorf("found %v: %s", matches, text)
	}
}

// Of an event stream only what differs is searched, with the name that stands before it.
func TestAFreshValueIsKnownByTheNameBeforeIt(t *testing.T) {
	r := builtin(t)
	text := streamOf(`data: {"type":"input","password":"%s"}`, []string{"-"}, []string{"none"}, []string{"hunter2"})
	if found := maskFresh(r, text); len(found) != 1 || bytes.Contains(text, []byte("hunter2")) {
		t.Errorf("found %v: %s", found, text)
	}
}

const padded = `data: {"content":"%s","obfuscation":"%s"}`

// Events may have padding besides their text; a secret in either is found, also one that is known by value.
func TestAFreshSecretIsFoundInTextAndPadding(t *testing.T) {
	r := builtin(t)
	r.Guard("v4lu3-0f-Ours")
	for _, secret := range []string{"ghp_" + body(36), "v4lu3-0f-Ours"} {
		for _, last := range [][]string{{secret, "xW8nL"}, {"some words ", secret}} {
			text := streamOf(padded, []string{"some words ", "xW8nL"}, []string{"and more ", "W8nLp0"}, last)
			if found := maskFresh(r, text); len(found) != 1 || bytes.Contains(text, []byte(secret)) {
				t.Errorf("found %v: %s", found, text)
			}
		}
	}
}

// Pieces are searched for signs eight bytes at a time.
func TestASignIsSeenWhereverItIsInAPiece(t *testing.T) {
	r := builtin(t)
	for _, announced := range []string{"pwd=k9x2m4q8w1", "pwd: k9x2m4q8w1", "<pwd>k9x2m4q8w1<", "ftp://me:k9x2m4q8w1@h", `pwd\u003dk9x2m4q8w1`} {
		for at := range 12 {
			text := streamOf(padded, []string{"some words ", "xW8nL"}, []string{"and more ", "W8nLp0"}, []string{"a word in f"[:at] + " " + announced, "n"})
			if found := maskFresh(r, text); len(found) == 0 || bytes.Contains(text, []byte("k9x2m4q8w1")) {
				t.Errorf("found %v: %s", found, text[len(text)-100:])
			}
		}
	}
}

// streamOf returns a stream of events with these contents.
func streamOf(format string, events ...[]string) []byte {
	var text []byte
	for _, event := range events {
		contents := make([]any, len(event))
		for i, content := range event {
			contents[i] = content
		}
		text = append(fmt.Appendf(text, format, contents...), "\n\n"...)
	}
	return text
}

func maskFresh(r *redact.Redactor, text []byte) []redact.Match {
	frames := template.Cut(text)
	defer frames.Release()
	return r.MaskFresh(text, frames)
}

func BenchmarkMaskFresh(b *testing.B) {
	r := builtin(b)
	text := streamOf(padded, slices.Repeat([][]string{{"some words ", "xW8nLp0Rt"}, {"and more ", "W8nLp0VtB7dK"}}, 100)...)
	frames := template.Cut(text)
	defer frames.Release()
	inProcessorTime(b, len(text), func(int) { r.MaskFresh(text, frames) })
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
