/** Finds credentials with the same rules that redact receipts. Only their kind is ever printed. */
import { findSecrets } from '../../src/receipts/redaction/find-secrets.ts'
import { mergeFindings } from '../../src/receipts/redaction/findings.ts'
import type { Breach, Rule } from './rule.ts'

const WEBHOOK = new Set(['webhook_url'])
const BEARER = new Set(['authorization', 'jwt'])
const SSH = new Set(['private_key'])

/** Returns whether the match is a bare word after a space: a type or a variable. */
function isIdentifier(text: string, start: number, secret: string): boolean {
  return text[start - 1] === ' ' && /^[A-Za-z_$][\w$.<>[\]]*$/.test(secret)
}

/** Returns whether the match is a word of a wire format beside the name of a count: `max_tokens: 'length'`. */
function isDialect(text: string, start: number, secret: string): boolean {
  return (
    /\bmax_(?:completion_|output_)?tokens['"]?\s*:\s*['"]?$/.test(
      text.slice(Math.max(0, start - 60), start),
    ) && /^['"]?[A-Za-z_]{1,24}['"]?$/.test(secret)
  )
}

/** Returns whether the match is a mode of Craik and not a credential: `--credentials forward`. */
function isMode(text: string, start: number, secret: string): boolean {
  return (
    /--credentials[ =]$/.test(text.slice(Math.max(0, start - 60), start)) &&
    /^(?:broker|forward|none|MODE)\W*$/.test(secret)
  )
}

function byKind(name: string, isKind: (label: string, secret: string) => boolean): Rule {
  return {
    name,
    instead: 'the name of a secret, such as OPENAI_API_KEY',
    *find(text, form): Iterable<Breach> {
      for (const { start, end, label } of mergeFindings(text, findSecrets(text))) {
        const secret = text.slice(start, end)
        const isName =
          form === 'code' && (isIdentifier(text, start, secret) || isDialect(text, start, secret))
        if (!isName && !isMode(text, start, secret) && isKind(label, secret)) yield { start, what: label }
      }
    },
  }
}

const isWebhook = (label: string, secret: string) => WEBHOOK.has(label) || secret.startsWith('whsec_')

const foundWebhooks = byKind('webhook-secret', isWebhook)
/** Webhooks of other services. Their address alone permits a post. */
const WEBHOOK_URL =
  /https:\/\/(?:[\w-]+\.webhook\.office\.com\/webhookb2|chat\.googleapis\.com\/v1\/spaces|hooks\.zapier\.com\/hooks\/catch)\/[\w@/-]{8,}/g

export const webhookSecrets: Rule = {
  ...foundWebhooks,
  *find(text, form): Iterable<Breach> {
    yield* foundWebhooks.find(text, form)
    for (const match of text.matchAll(WEBHOOK_URL)) yield { start: match.index, what: 'webhook_url' }
  },
}

export const bearerTokens: Rule = byKind('bearer-token', (label) => BEARER.has(label))

const foundPrivateKeys = byKind('ssh-key', (label) => SSH.has(label))
const PUBLIC_KEY =
  /\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d+|sk-ssh-ed25519@openssh\.com)\s+AAAA[A-Za-z0-9+/]{16}/g

/** A public key is no secret, but it identifies a machine or its user. */
export const sshKeys: Rule = {
  ...foundPrivateKeys,
  *find(text, form): Iterable<Breach> {
    yield* foundPrivateKeys.find(text, form)
    for (const match of text.matchAll(PUBLIC_KEY)) yield { start: match.index, what: 'public_key' }
  },
}

export const credentials: Rule = byKind(
  'credential',
  (label, secret) => !BEARER.has(label) && !SSH.has(label) && !isWebhook(label, secret),
)
