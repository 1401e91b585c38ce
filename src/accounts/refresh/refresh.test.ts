import { existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Issuer, startIssuer } from '../../../test/accounts/issuer.ts'
import { type Machine, NEVER } from '../accounts.fixture.ts'
import { brokerOf, CLAUDE, HOUR_MS, machineOf } from '../broker.fixture.ts'
import type { BrokerOptions } from '../broker.ts'
import type { Probe } from '../probe-result.ts'
import { claudeCodeProbe } from '../probes/claude-code.ts'
import { refreshFile, tokenDigest, writeJournal } from './journal.ts'

let issuer: Issuer
beforeAll(async () => {
  issuer = await startIssuer()
})
afterAll(() => issuer[Symbol.asyncDispose]())
beforeEach(() => {
  issuer.broken = undefined
  issuer.delayMs = 0
})

const here = (variables?: Readonly<Record<string, string>>) => machineOf(issuer, variables)
const brokerAt = (place: Machine, more?: Partial<BrokerOptions>) => brokerOf(issuer, place, more)

describe('a login that is being refreshed', () => {
  it('whose token was used up by its own program is adopted when that has written its own', async () => {
    using place = here()
    const pair = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + 1_000))
    const theirs = issuer.login()
    issuer.broken = { status: 400, text: '{"error":"invalid_grant"}' }
    const asked = brokerAt(place).credential('claude-code', NEVER)
    await expect.poll(() => issuer.refreshes.at(-1)?.fields.refresh_token).toBe(pair.refresh_token)
    place.write(CLAUDE.file, CLAUDE.write(theirs, Date.now() + HOUR_MS))
    expect((await asked).headers.authorization).toBe(`Bearer ${theirs.access_token}`)
  })

  it('is not rotated when what comes back could not be written', async () => {
    using place = here()
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
    const before = issuer.refreshes.length
    const unwritable: Probe = {
      ...claudeCodeProbe,
      async probe(surroundings, until) {
        const findings = await claudeCodeProbe.probe(surroundings, until)
        return findings.map((finding) =>
          'login' in finding && finding.login.kind === 'oauth'
            ? {
                ...finding,
                login: {
                  ...finding.login,
                  vault: { ...finding.login.vault, unwritable: async () => 'it is closed' },
                },
              }
            : finding,
        )
      },
    }
    await expect(brokerAt(place, { probes: [unwritable] }).credential('claude-code', NEVER)).rejects.toThrow(
      'it is closed',
    )
    expect(issuer.refreshes).toHaveLength(before)
  })

  it('waits for the lock of its own program, takes it over when its holder is dead, and gives it back', async () => {
    using place = here()
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
    const locks = ['.claude/.oauth_refresh.lock', '.claude.lock'].map((name) => join(place.userHome, name))
    for (const lock of locks) mkdirSync(lock)
    const dead = new Date(Date.now() - 120_000)
    utimesSync(locks[1]!, dead, dead)
    const before = issuer.refreshes.length
    const asked = brokerAt(place).credential('claude-code', NEVER)
    await new Promise((later) => setTimeout(later, 300))
    expect(issuer.refreshes).toHaveLength(before)
    rmSync(locks[0]!, { recursive: true })
    await asked
    expect(issuer.refreshes).toHaveLength(before + 1)
    expect(locks.filter((lock) => existsSync(lock))).toEqual([])
  })

  it('gets the answer that a killed process had kept, without asking again', async () => {
    using place = here()
    const pair = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + HOUR_MS))
    const journal = refreshFile(
      place.home,
      'claude-code',
      `file:${join(place.userHome, CLAUDE.file)}`,
      'json',
    )
    const answer = { access_token: 'kept-access', refresh_token: 'kept-refresh', expires_in: 3600 }
    const kept = { used: tokenDigest(pair.refresh_token), unwanted: tokenDigest(pair.access_token), answer }
    writeJournal(place.home, journal, { ...kept, answeredAtMs: Date.now() })
    const before = issuer.refreshes.length
    const { headers } = await brokerAt(place).credential('claude-code', NEVER)
    expect(headers.authorization).toBe('Bearer kept-access')
    expect(CLAUDE.refreshToken(place.read(CLAUDE.file))).toBe('kept-refresh')
    expect(existsSync(journal)).toBe(false)
    expect(issuer.refreshes).toHaveLength(before)
  })

  it('keeps what somebody else has written since, and forgets a kept answer for another token', async () => {
    using place = here()
    const theirs = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(theirs, Date.now() + HOUR_MS))
    const journal = refreshFile(
      place.home,
      'claude-code',
      `file:${join(place.userHome, CLAUDE.file)}`,
      'json',
    )
    const answer = { access_token: 'kept-access', refresh_token: 'kept-refresh', expires_in: 3600 }
    writeJournal(place.home, journal, { used: tokenDigest('old'), unwanted: '', answer, answeredAtMs: 1 })
    const { headers } = await brokerAt(place).credential('claude-code', NEVER)
    expect(headers.authorization).toBe(`Bearer ${theirs.access_token}`)
    expect(existsSync(journal)).toBe(false)
  })

  it('is left as its own program wrote it while the issuer was answering', async () => {
    using place = here()
    const pair = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
    issuer.delayMs = 200
    const asked = brokerAt(place).credential('claude-code', NEVER)
    await expect.poll(() => issuer.refreshes.at(-1)?.fields.refresh_token).toBe(pair.refresh_token)
    const theirs = issuer.login()
    writeFileSync(join(place.userHome, CLAUDE.file), CLAUDE.write(theirs, Date.now() + HOUR_MS))
    expect((await asked).headers.authorization).toBe(`Bearer ${theirs.access_token}`)
  })

  it('that nobody is logged in by any more when the answer comes stays logged out', async () => {
    using place = here()
    const pair = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
    issuer.delayMs = 200
    const asked = brokerAt(place).credential('claude-code', NEVER)
    const refusal = expect(asked).rejects.toMatchObject({ code: 'unavailable' })
    await expect.poll(() => issuer.refreshes.at(-1)?.fields.refresh_token).toBe(pair.refresh_token)
    rmSync(join(place.userHome, CLAUDE.file))
    await refusal
    expect(existsSync(join(place.userHome, CLAUDE.file))).toBe(false)
  })
})
