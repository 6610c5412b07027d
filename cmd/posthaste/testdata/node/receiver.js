// A receiver of webhooks that verifies them as users in Node do, for
// interop_test.go. It listens on a free port of 127.0.0.1 and prints lines of
// JSON: first its port, then what it found of each request.
//
// Paths: /standard and /wrong verify with the official library, with the secret
// of the environment variable SECRET and with WRONG_SECRET; /hex verifies the
// scheme hex with node:crypto and HEX_SECRET. Answers 200, or 401 if refused.
'use strict';

const { createHash, createHmac, timingSafeEqual } = require('node:crypto');
const { createServer } = require('node:http');
const { Webhook } = require('standardwebhooks');

// What the library is given: the body as a Buffer. It takes a string or a
// Buffer, and turns the latter into text, so it can verify UTF-8 alone; and it
// reads the body as JSON unless it is told not to.
function verifyStandard(secret, body, headers) {
  new Webhook(secret).verify(body, headers, { jsonParse: false });
}

function equal(a, b) {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}

// The same by the words of the specification, over the raw bytes.
function verifyByHand(secret, body, headers) {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.`;
  const want = 'v1,' + createHmac('sha256', key).update(signed).update(body).digest('base64');
  if (!headers['webhook-signature'].split(' ').some((one) => equal(one, want))) throw new Error('no signature matches');
}

function verifyHex(secret, body, headers) {
  const want = createHmac('sha256', secret).update(`${headers['x-acme-timestamp']}.`).update(body).digest('hex');
  if (!equal(headers['x-acme-signature'] ?? '', `sha256=${want}`)) throw new Error('no signature matches');
}

// problem returns why verify throws, or '' if it does not.
function problem(verify, secret, body, headers) {
  try {
    verify(secret, body, headers);
    return '';
  } catch (err) {
    return `${err.name}: ${err.message}`;
  }
}

const env = process.env;
const checks = {
  '/standard': [verifyStandard, env.SECRET],
  '/wrong': [verifyStandard, env.WRONG_SECRET],
  '/hex': [verifyHex, env.HEX_SECRET],
};

const server = createServer((req, res) => {
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const body = Buffer.concat(chunks);
    const [verify, secret] = checks[req.url];
    const found = {
      path: req.url,
      type: req.headers['posthaste-event-type'],
      digest: createHash('sha256').update(body).digest('hex'),
      problem: problem(verify, secret, body, req.headers),
      by_hand: verify === verifyStandard ? problem(verifyByHand, secret, body, req.headers) : '',
      headers: Object.keys(req.headers),
    };
    console.log(JSON.stringify(found));
    res.writeHead(found.problem ? 401 : 200).end();
  });
});

server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
process.stdin.on('end', () => process.exit(0)).resume(); // whoever started it is gone
