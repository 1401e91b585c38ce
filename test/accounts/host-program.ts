/**
 * Simulates the program that owns the login: it also refreshes tokens, under its own lock, and rewrites its file in
 * place.
 */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { callForEver, readInstructions } from './user-of-tokens.ts'

const instructions = readInstructions()
const { userHome, tokenUrl, authority } = instructions
const folder = join(userHome, '.claude')
const path = join(folder, '.credentials.json')
const locks = [join(folder, '.oauth_refresh.lock'), `${folder}.lock`]
const agent = new Agent({ connect: { ca: authority } })
const read = () => JSON.parse(readFileSync(path, 'utf8'))
/**
 * The time before a token's expiry at which the program renews it, and the share of calls in which it checks for that.
 */
const SKEW_MS = 5 * 60_000
const CHECKS_PER_CALL = 0.05

await callForEver(instructions, {
  async token() {
    const { accessToken, expiresAt } = read().claudeAiOauth
    if (expiresAt - Date.now() > SKEW_MS || Math.random() > CHECKS_PER_CALL) return accessToken
    return another(accessToken)
  },
  getNewerToken: another,
})

async function another(refused: string): Promise<string> {
  for (const lock of locks) await take(lock)
  try {
    const file = read()
    if (file.claudeAiOauth.accessToken !== refused) return file.claudeAiOauth.accessToken
    const { body } = await request(tokenUrl, {
      method: 'POST',
      dispatcher: agent,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ grant_type: 'refresh_token', refresh_token: file.claudeAiOauth.refreshToken }),
    })
    const answer = (await body.json()) as {
      access_token: string
      refresh_token: string
      expires_in: number
    }
    const claudeAiOauth = {
      ...file.claudeAiOauth,
      accessToken: answer.access_token,
      refreshToken: answer.refresh_token,
      expiresAt: Date.now() + answer.expires_in * 1000,
    }
    writeFileSync(path, JSON.stringify({ ...file, claudeAiOauth }))
    return answer.access_token
  } finally {
    for (const lock of locks) rmdirSync(lock)
  }
}

async function take(lock: string): Promise<void> {
  for (;;) {
    try {
      mkdirSync(lock)
      return
    } catch {
      await sleep(5 + Math.random() * 20)
    }
  }
}
