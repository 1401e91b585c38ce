/**
 * The placeholder credentials that a sandbox gets instead of real ones (`Sentinel` in the code). They have the shape of
 * real ones, so that programs accept them, and are valid only on that sandbox's own stream. A sentinel is derived, not
 * stored: the same sandbox and account always get the same one.
 */
import { hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { createPrivateFile, ensurePrivateFolder, readPrivateFile } from '../lib/private-files.ts'
import { quoteArgument } from '../lib/shlex.ts'
import type { Home } from '../store/home.ts'
import type { Account } from './account.ts'

const KEY_BYTES = 32
const LABEL = 'secrets/sentinels.key of this home'
/** 2100-01-01, so that no program tries to renew it. */
export const FAR_FUTURE_MS = Date.UTC(2100, 0, 1)
const FAR_FUTURE_S = FAR_FUTURE_MS / 1000

export interface Sentinel {
  /** The value that a program sends to the gateway. */
  readonly presented: string
  /** The refresh token in the program's file. No service accepts it. */
  readonly refreshToken: string
  readonly idToken: string
  /** Stands for the id that the account has at the provider. */
  readonly accountNumber: string
}

export interface Sentinels {
  for(sandboxId: string, account: Pick<Account, 'id' | 'family' | 'kind' | 'plan'>): Sentinel
}

/** A lost key invalidates the sentinels derived from it and has no other effect: a new key is created. */
export function openSentinels(home: Home): Sentinels {
  const path = join(home.secrets, 'sentinels.key')
  ensurePrivateFolder(home.secrets, 'secrets folder of this home')
  if (!existsSync(path)) createPrivateFile(path, randomBytes(KEY_BYTES), LABEL)
  const key = readPrivateFile(path, KEY_BYTES, LABEL)
  if (key.length === KEY_BYTES) return sentinelsFrom(key)
  throw new CraikError(
    'key_unreadable',
    `${LABEL} is damaged: it has ${key.length} bytes instead of ${KEY_BYTES}`,
    {
      hint: `move it away:  mv ${quoteArgument(path)} ${quoteArgument(`${path}.damaged`)}   Craik then creates a new key, and new sandboxes get new placeholder credentials`,
    },
  )
}

export function sentinelsFrom(key: Uint8Array): Sentinels {
  return {
    for(sandboxId, account) {
      const derive: Derive = (label, bytes) =>
        Buffer.from(hkdfSync('sha256', key, '', JSON.stringify([sandboxId, account.id, label]), bytes))
      return {
        presented: createSentinelText(account, derive),
        refreshToken: refreshTokenFor(account, derive),
        idToken: idToken(account, derive),
        accountNumber: uuid(derive('account', 16)),
      }
    },
  }
}

/** Compares in constant time: a sandbox must not learn the expected value byte by byte. */
export function isSentinel(presented: string, sentinel: string): boolean {
  const [a, b] = [Buffer.from(presented), Buffer.from(sentinel)]
  return a.length === b.length && timingSafeEqual(a, b)
}

type Derive = (label: string, bytes: number) => Buffer

function createSentinelText(
  { id, family, kind, plan }: Parameters<Sentinels['for']>[1],
  derive: Derive,
): string {
  const text = (length: number) => base64UrlText(derive('presented', length), length)
  switch (family) {
    case 'anthropic':
      return kind === 'oauth' ? `sk-ant-oat01-${text(93)}AA` : `sk-ant-api03-${text(93)}AA`
    case 'openai':
      return kind === 'oauth' ? accessToken(plan, derive) : `sk-proj-${text(120)}`
    case 'gemini':
      return kind === 'oauth' ? `ya29.a0${text(180)}` : `AIzaSy${text(33)}`
    case 'openrouter':
      return `sk-or-v1-${derive('presented', 32).toString('hex')}`
    case 'kimi':
      return kind === 'oauth'
        ? jwt({ iss: 'kimi-auth', exp: FAR_FUTURE_S, type: 'access' }, derive, 'presented')
        : `sk-${alphanumericText(derive('presented', 48))}`
    case 'github':
      return `${kind === 'oauth' || id !== 'github' ? 'gho_' : 'ghp_'}${alphanumericText(derive('presented', 36))}`
  }
}

function refreshTokenFor({ family }: Pick<Account, 'family'>, derive: Derive): string {
  const text = (length: number) => base64UrlText(derive('refresh', length), length)
  if (family === 'anthropic') return `sk-ant-ort01-${text(93)}AA`
  if (family === 'openai') return `rt_${text(90)}`
  if (family === 'gemini') return `1//0${text(96)}`
  return jwt({ exp: FAR_FUTURE_S, type: 'refresh' }, derive, 'refresh')
}

const OPENAI = 'https://api.openai.com/auth'

function accessToken(plan: string | undefined, derive: Derive): string {
  return jwt(
    {
      aud: ['https://api.openai.com/v1'],
      iss: 'https://auth.openai.com',
      exp: FAR_FUTURE_S,
      [OPENAI]: openaiClaims(plan, derive),
    },
    derive,
    'presented',
  )
}

/** Codex reads it for its own display and for the plan. It contains nothing about the login's owner. */
function idToken({ plan }: Pick<Account, 'plan'>, derive: Derive): string {
  return jwt(
    {
      iss: 'https://auth.openai.com',
      exp: FAR_FUTURE_S,
      email: 'sandbox@craik.invalid',
      [OPENAI]: openaiClaims(plan, derive),
    },
    derive,
    'id',
  )
}

function openaiClaims(plan: string | undefined, derive: Derive) {
  return {
    chatgpt_account_id: uuid(derive('account', 16)),
    chatgpt_user_id: `user-${alphanumericText(derive('user', 24))}`,
    chatgpt_plan_type: plan ?? 'plus',
  }
}

/** Returns a token with the shape of a signed one. The signature part is the secret. */
function jwt(claims: Readonly<Record<string, unknown>>, derive: Derive, label: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signature = derive(`${label} signature`, 256).toString('base64url')
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${signature}`
}

function base64UrlText(bytes: Buffer, length: number): string {
  return bytes.toString('base64url').slice(0, length)
}

const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

function alphanumericText(bytes: Buffer): string {
  return [...bytes].map((byte) => ALPHANUMERIC[byte % ALPHANUMERIC.length]).join('')
}

function uuid(bytes: Buffer): string {
  const hex = bytes.toString('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}
