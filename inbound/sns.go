package inbound

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // signature version 1 uses it
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Amazon SNS signs with a certificate that the message names by its URL.
// Source: docs.aws.amazon.com/sns, "Verifying the signatures of Amazon SNS messages".

const (
	snsNotification = "Notification"
	snsSubscribe    = "SubscriptionConfirmation"
	snsUnsubscribe  = "UnsubscribeConfirmation"
)

// snsHost covers all partitions and regions, and nothing that a customer can name,
// such as a bucket.
var snsHost = regexp.MustCompile(`^sns\.[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}\.amazonaws\.com(\.cn)?$`)

func isSNSHost(host string) bool { return snsHost.MatchString(host) }

// snsMembers are the members of a message that are looked at.
var snsMembers = []string{
	"Type", "Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Token", "SubscribeURL", "Signature", "SignatureVersion", "SigningCertURL",
}

// snsMessage holds the members of a message as text.
type snsMessage map[string]string

func readSNS(r *incoming) snsMessage {
	m := snsMessage{}
	for i, value := range r.document().json.pick(snsMembers...) {
		if value != nil {
			m[snsMembers[i]] = value.text()
		}
	}
	return m
}

// content is what the signature covers, names and values on lines of their own, or
// else what is wrong with the message.
func (m snsMessage) content() (text, problem string) {
	var names []string
	switch m["Type"] {
	case snsNotification:
		names = []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	case snsSubscribe, snsUnsubscribe:
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	default:
		return "", "is of no type that Amazon SNS signs"
	}
	var b strings.Builder
	for _, name := range names {
		value, present := m[name]
		if name == "Subject" && value == "" {
			continue
		}
		if !present {
			return "", "has no " + name
		}
		b.WriteString(name + "\n" + value + "\n")
	}
	return b.String(), ""
}

func verifySNS(ctx context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	m := readSNS(r)
	content, problem := m.content()
	if problem != "" {
		return reject(ReasonMalformedBody, "the body "+problem, "raw message delivery has no signature: switch it off for this subscription"), nil
	}
	address := m["SigningCertURL"]
	if problem := trusted(address, isSNSHost); problem != "" || !isSNSCertificate(address) {
		return reject(ReasonUntrustedKey, "SigningCertURL is not a certificate on sns.REGION.amazonaws.com", "the request was not made by Amazon SNS"), nil
	}
	signature := fromBase64(m["Signature"])
	if signature == nil {
		return reject(ReasonMalformedBody, "the member Signature is not base64", ""), nil
	}
	k, err := v.keys.get(ctx, address, func(ctx context.Context) (key, error) {
		return v.fetchCertificate(ctx, address, func(*x509.Certificate, []*x509.Certificate) error { return nil })
	})
	if err != nil {
		return nil, err
	}
	if !snsMatches(k.rsa, m["SignatureVersion"], content, signature) {
		return v.noMatch(), nil
	}
	if topics := v.settings.list("topic_arns"); !slices.Contains(topics, "*") && !slices.Contains(topics, m["TopicArn"]) {
		return reject(ReasonNotAllowed, fmt.Sprintf("the message is of the topic %.256q, which is not in the setting topic_arns", m["TopicArn"]),
			"anybody can subscribe this URL to a topic of their own, so name yours"), nil
	}
	return v.checkFresh(rfc3339, m["Timestamp"], r.At), nil
}

// isSNSCertificate reports whether a URL is one of those under which Amazon publishes
// certificates of SNS: a sender must not choose what else is fetched.
func isSNSCertificate(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.RawQuery == "" && snsCertificate.MatchString(u.Path)
}

var snsCertificate = regexp.MustCompile(`^/SimpleNotificationService-?[0-9A-Za-z]{0,64}\.pem$`)

func snsMatches(public *rsa.PublicKey, version, content string, signature []byte) bool {
	switch version {
	case "1":
		sum := sha1.Sum([]byte(content)) //nolint:gosec // as above
		return rsa.VerifyPKCS1v15(public, crypto.SHA1, sum[:], signature) == nil
	case "2":
		sum := sha256.Sum256([]byte(content))
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// fetchCertificate fetches a chain in PEM, lets check look at it and returns the
// key of its first certificate.
func (v *Verifier) fetchCertificate(ctx context.Context, address string, check func(leaf *x509.Certificate, chain []*x509.Certificate) error) (key, error) {
	status, text, err := v.fetch(ctx, http.MethodGet, address, nil)
	if err != nil {
		return key{}, err
	}
	if status != http.StatusOK {
		return key{}, fmt.Errorf("fetch the certificate from %s: it answered %d", hostOf(address), status)
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return key{}, fmt.Errorf("read the certificate from %s: %w", hostOf(address), err)
		}
		chain = append(chain, certificate)
	}
	if len(chain) == 0 {
		return key{}, fmt.Errorf("read the certificate from %s: it is not PEM", hostOf(address))
	}
	if err := check(chain[0], chain[1:]); err != nil {
		return key{}, fmt.Errorf("check the certificate from %s: %w", hostOf(address), err)
	}
	public, ok := chain[0].PublicKey.(*rsa.PublicKey)
	if !ok {
		return key{}, fmt.Errorf("read the certificate from %s: its key is not RSA", hostOf(address))
	}
	return key{rsa: public}, nil
}

// confirmSNS confirms a subscription by fetching the URL that the verified message
// names, and stores only notifications.
func confirmSNS(ctx context.Context, v *Verifier, d *document, verified Outcome) (Outcome, error) {
	m := readSNS(d.request)
	if m["Type"] == snsNotification {
		return verified, nil
	}
	outcome := Outcome{Kind: KindHandshake, Answer: v.provider.Success}
	if m["Type"] != snsSubscribe || v.settings["confirm"] == "off" {
		return outcome, nil
	}
	address := m["SubscribeURL"]
	if problem := trusted(address, isSNSHost); problem != "" || !isConfirmation(address) {
		return rejected(*reject(ReasonUntrustedKey, "SubscribeURL is not a confirmation on sns.REGION.amazonaws.com", "")), nil
	}
	status, _, err := v.fetch(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Outcome{}, fmt.Errorf("confirm the subscription: %w", err)
	}
	if status != http.StatusOK {
		return Outcome{}, fmt.Errorf("confirm the subscription: %s answered %d", hostOf(address), status)
	}
	return outcome, nil
}

func isConfirmation(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Query().Get("Action") == "ConfirmSubscription"
}
