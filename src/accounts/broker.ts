/** Reads the logins of this machine. It is the only part of Craik that ever holds or refreshes their secrets. */
import { createHmac, randomBytes } from 'node:crypto'
import { CraikError } from '../errors.ts'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { Home } from '../store/home.ts'
import type { Account, Broker, Credential } from './account.ts'
import { EndedLogins } from './ended-logins.ts'
import { type ForwardedLogin, readForwardedLogin } from './forwarding.ts'
import { logInAgain, loginCommandOf } from './log-in-again.ts'
import type { Tokens } from './logins/format.ts'
import type { Overrides } from './overrides.ts'
import {
  type Found,
  type HostEnvironment,
  isProbeProblem,
  type OAuthLogin,
  type Probe,
  type ProbeProblem,
  type ProbeResult,
} from './probe-result.ts'
import { hasJournal, refreshFile, tokenDigest } from './refresh/journal.ts'
import type { RefreshOutcome, RefreshTask } from './refresh/transaction.ts'
import { recordRefresh } from './refresh-receipt.ts'

export interface BrokerOptions {
  readonly home: Home
  readonly hostEnvironment: Omit<HostEnvironment, 'overrides'>
  /** Read for every call, so that a login goes to the address that is configured at that moment. */
  readonly overrides: () => Promise<Overrides>
  readonly probes: readonly Probe[]
  /** Runs to its end. It is not stopped when a caller aborts. */
  readonly refresh: (task: RefreshTask) => Promise<RefreshOutcome>
  readonly operator: string
  /** Every refresh is recorded in this log. `undefined` writes no receipt, as for commands that only read. */
  readonly log?: ReceiptLog | undefined
  readonly authorities?: readonly string[] | undefined
  /** Whether to ask issuers again that refused to renew a login before. */
  readonly asksAgain?: boolean
  /** How long before its expiry a token is renewed, in milliseconds. */
  readonly skewMs?: number
  /** How long a token that was fetched after a 401 is not exchanged after another 401, in milliseconds. */
  readonly freshMs?: number
}

export interface HostLogins extends Broker {
  /** Returns possible logins that Craik does not use, each with a one-line reason. */
  problems(until: AbortSignal): Promise<readonly ProbeProblem[]>
  /** Returns the searched locations, and the login command of each program that has one. */
  listProbed(): readonly ProbedAccounts[]
  /** Returns the real login, for `--credentials forward` only. Craik cannot see what the sandbox does with it. */
  forward(accountId: string, until: AbortSignal): Promise<ForwardedLogin>
}

export interface ProbedAccounts {
  readonly name: string
  readonly searchedLocations: readonly string[]
  readonly loginCommand: string | undefined
}

const SKEW_MS = 5 * 60_000
/** A token with more time left than this is used while its successor is being fetched. */
const USABLE_MS = 60_000
/** An issuer that failed is not called again for this long, or less when no usable token is left. */
const RETRY_AFTER_MS = 10_000
const URGENT_RETRY_AFTER_MS = 1_000
/** A refusal this soon after a fetch for a 401 is not the token's fault, so the broker does not fetch another one. */
const FRESH_MS = 30_000

export function createBroker(options: BrokerOptions): HostLogins {
  return new HostBroker(options)
}

interface Seen {
  readonly stamp: string | undefined
  /** The config's overrides at that moment, as JSON. */
  readonly overrides: string
  readonly findings: Promise<readonly ProbeResult[]>
}

class HostBroker implements HostLogins {
  readonly #options: BrokerOptions
  readonly #skewMs: number
  readonly #freshMs: number
  readonly #seen = new Map<Probe, Seen>()
  readonly #running = new Map<string, Promise<RefreshOutcome>>()
  readonly #recovered = new Set<string>()
  readonly #ended: EndedLogins
  readonly #failed = new Map<string, { readonly atMs: number; readonly reason: string }>()
  /** The generation that a refresh after a 401 led to, and its time. */
  readonly #forced = new Map<string, { readonly generation: string; readonly atMs: number }>()
  /** The key makes generations comparable within this process only. They reveal nothing of the tokens. */
  readonly #generationKey = randomBytes(32)

  constructor(options: BrokerOptions) {
    this.#options = options
    this.#skewMs = options.skewMs ?? SKEW_MS
    this.#freshMs = options.freshMs ?? FRESH_MS
    this.#ended = new EndedLogins(options.home, options.asksAgain === true)
  }

  async accounts(until: AbortSignal): Promise<readonly Account[]> {
    const findings = await this.#all(until)
    return findings.flatMap((finding) =>
      isProbeProblem(finding) || this.#hasEnded(finding) ? [] : [finding.account],
    )
  }

  async problems(until: AbortSignal): Promise<readonly ProbeProblem[]> {
    const findings = await this.#all(until)
    return findings.flatMap((finding) => {
      if (isProbeProblem(finding)) return [finding]
      return this.#hasEnded(finding) ? [endedLoginProblem(finding)] : []
    })
  }

  listProbed(): readonly ProbedAccounts[] {
    const { probes, hostEnvironment: surroundings } = this.#options
    // The config overrides addresses, never searched locations.
    const everywhere = { ...surroundings, overrides: {} }
    return probes.map((probe) => ({
      name: probe.name,
      searchedLocations: probe.searchedLocations(everywhere),
      loginCommand: loginCommandOf(probe.name),
    }))
  }

  async credential(accountId: string, until: AbortSignal): Promise<Credential> {
    const { account, login } = await this.#find(accountId, until)
    if (login.kind === 'key') return this.#fromKey(account, login.headers(await login.read(until)))
    if (await this.#recover(accountId, login, until)) return this.credential(accountId, until)
    const leftMs = this.#remainingMs(login.tokens)
    if (leftMs > this.#skewMs || !this.#mayRefresh(accountId, login, leftMs))
      return this.#usable(account, login)
    const refresh = this.#refresh(accountId, login)
    if (leftMs > USABLE_MS) return this.#fromTokens(account, login)
    const outcome = await orAbort(refresh, until)
    if (outcome.outcome === 'failed' && leftMs <= 0) throw unavailable(accountId, outcome.reason)
    const now = await this.#find(accountId, until)
    if (now.login.kind === 'oauth') return this.#usable(now.account, now.login)
    throw unavailable(accountId, 'it is now a different kind of login')
  }

  async renewAfterRefusal(
    accountId: string,
    generation: string,
    until: AbortSignal,
  ): Promise<Credential | undefined> {
    this.#forget(accountId)
    const current = await this.#current(accountId, until)
    if (current === undefined || current.credential.generation !== generation) return current?.credential
    const { login } = current
    const last = this.#forced.get(accountId)
    if (login.kind === 'key') return undefined
    if (last?.generation === generation && this.#nowMs() - last.atMs < this.#freshMs) return undefined
    const outcome =
      this.#ended.of(accountId, login) === undefined
        ? (await orAbort(this.#refresh(accountId, login), until)).outcome
        : 'ended'
    if (outcome === 'ended') this.#ended.add(accountId, login, true)
    if (outcome !== 'refreshed' && outcome !== 'adopted') return undefined
    const after = (await this.#current(accountId, until))?.credential
    if (after === undefined || after.generation === generation) return undefined
    this.#forced.set(accountId, { generation: after.generation, atMs: this.#nowMs() })
    return after
  }

  async forward(accountId: string, until: AbortSignal): Promise<ForwardedLogin> {
    return readForwardedLogin(await this.#find(accountId, until), until)
  }

  /** Returns the present login, also when it is about to expire. `undefined` when none exists. */
  async #current(
    accountId: string,
    until: AbortSignal,
  ): Promise<{ readonly login: Found['login']; readonly credential: Credential } | undefined> {
    try {
      const { account, login } = await this.#find(accountId, until)
      const credential =
        login.kind === 'oauth'
          ? this.#fromTokens(account, login)
          : this.#fromKey(account, login.headers(await login.read(until)))
      return { login, credential }
    } catch (error) {
      if (error instanceof CraikError && error.code === 'unavailable') return undefined
      throw error
    }
  }

  async #all(until: AbortSignal): Promise<readonly ProbeResult[]> {
    return (await Promise.all(this.#options.probes.map((probe) => this.#look(probe, until)))).flat()
  }

  /** Returns a probe's results, and runs the probe again whenever they may have changed. */
  async #look(probe: Probe, until: AbortSignal): Promise<readonly ProbeResult[]> {
    const hostEnvironment = await this.#hostEnvironment()
    const overrides = JSON.stringify(hostEnvironment.overrides)
    const stamp = await probe.stamp(hostEnvironment)
    const seen = this.#seen.get(probe)
    if (seen !== undefined && stamp !== undefined && seen.stamp === stamp && seen.overrides === overrides)
      return orAbort(seen.findings, until)
    // All callers share the probe, so none of them can abort it. Each probe has its own deadlines.
    const findings = probe.probe(hostEnvironment, new AbortController().signal)
    findings.catch(() => this.#seen.delete(probe))
    this.#seen.set(probe, { stamp, overrides, findings })
    return orAbort(findings, until)
  }

  async #hostEnvironment(): Promise<HostEnvironment> {
    const { hostEnvironment: surroundings, overrides } = this.#options
    return { ...surroundings, overrides: await overrides() }
  }

  async #find(accountId: string, until: AbortSignal): Promise<Found> {
    const probe = this.#probeOf(accountId)
    const findings = probe === undefined ? [] : await this.#look(probe, until)
    for (const finding of findings)
      if (!isProbeProblem(finding) && finding.account.id === accountId) return finding
    const problem = findings.filter(isProbeProblem).find(({ id }) => id === accountId)
    throw new CraikError(
      'unavailable',
      problem?.problem ?? `login ${accountId} does not exist on this machine`,
      { hint: problem?.hint ?? 'list the logins:  craik accounts' },
    )
  }

  #probeOf(accountId: string): Probe | undefined {
    return this.#options.probes.find(({ name }) => name === accountId || accountId.startsWith(`${name}/`))
  }

  #forget(accountId: string): void {
    const probe = this.#probeOf(accountId)
    if (probe !== undefined) this.#seen.delete(probe)
  }

  #usable(account: Account, login: OAuthLogin): Credential {
    const { id: accountId } = account
    const isRefused = this.#ended.of(accountId, login)?.refused === true
    if (!isRefused && this.#remainingMs(login.tokens) > 0) return this.#fromTokens(account, login)
    const failed = this.#failed.get(accountId)
    if (failed !== undefined) throw unavailable(accountId, failed.reason)
    throw new CraikError('unavailable', `the login ${accountId} has ended: its issuer does not refresh it`, {
      hint: logInAgain(accountId),
    })
  }

  #mayRefresh(accountId: string, login: OAuthLogin, leftMs: number): boolean {
    if (login.tokens.refreshToken === undefined) return false
    if (this.#ended.of(accountId, login) !== undefined) return false
    const failed = this.#failed.get(accountId)
    const waitMs = leftMs > 0 ? RETRY_AFTER_MS : URGENT_RETRY_AFTER_MS
    return failed === undefined || this.#nowMs() - failed.atMs >= waitMs
  }

  /** Runs one refresh at a time for each login. */
  #refresh(
    accountId: string,
    login: OAuthLogin,
    unwanted = tokenDigest(login.tokens.accessToken),
  ): Promise<RefreshOutcome> {
    const running = this.#running.get(accountId)
    if (running !== undefined) return running
    const refresh = this.#refreshNow(accountId, login, unwanted).finally(() => {
      this.#running.delete(accountId)
      this.#forget(accountId)
    })
    // Perhaps no caller waits for it, so its rejection must be handled.
    refresh.catch(() => {})
    this.#running.set(accountId, refresh)
    return refresh
  }

  async #refreshNow(accountId: string, login: OAuthLogin, unwanted: string): Promise<RefreshOutcome> {
    const { home, authorities, refresh, log, operator } = this.#options
    const hostEnvironment = await this.#hostEnvironment()
    const task: RefreshTask = {
      home,
      accountId,
      login,
      hostEnvironment: hostEnvironment,
      unwanted,
      authorities,
    }
    const result = await recordRefresh(log, operator, accountId, () => refresh(task))
    if (result.outcome === 'failed')
      this.#failed.set(accountId, { atMs: this.#nowMs(), reason: result.reason })
    else this.#failed.delete(accountId)
    if (result.outcome === 'ended') this.#ended.add(accountId, login, false)
    return result
  }

  /**
   * Runs once for each login. A journal exists only if a process was killed between the issuer's response and the file
   * write.
   */
  async #recover(accountId: string, login: OAuthLogin, until: AbortSignal): Promise<boolean> {
    if (this.#recovered.has(accountId)) return false
    this.#recovered.add(accountId)
    const { home } = this.#options
    if (!hasJournal(refreshFile(home, accountId, login.vault.key, 'json'))) return false
    // No token has the empty digest, so the refresh only replays the journal and does not call the issuer.
    await orAbort(this.#refresh(accountId, login, ''), until)
    return true
  }

  #hasEnded({ account, login }: Found): boolean {
    if (login.kind !== 'oauth') return false
    const ended = this.#ended.of(account.id, login)
    if (this.#remainingMs(login.tokens) > 0) return ended?.refused === true
    return ended !== undefined || login.tokens.refreshToken === undefined
  }

  #remainingMs({ expiresAtMs }: Tokens): number {
    return expiresAtMs === undefined ? Number.POSITIVE_INFINITY : expiresAtMs - this.#nowMs()
  }

  #fromTokens({ id, baseUrl }: Account, { format, tokens }: OAuthLogin): Credential {
    const generation = this.#generation(tokens.accessToken)
    const { mergedHeaders } = format
    return { accountId: id, baseUrl, headers: format.headers(tokens), mergedHeaders, generation }
  }

  #fromKey({ id, baseUrl }: Account, headers: Readonly<Record<string, string>>): Credential {
    const generation = this.#generation(Object.values(headers).join('\n'))
    return { accountId: id, baseUrl, headers, mergedHeaders: {}, generation }
  }

  #generation(value: string): string {
    return createHmac('sha256', this.#generationKey).update(value).digest('hex').slice(0, 32)
  }

  #nowMs(): number {
    return this.#options.hostEnvironment.nowMs()
  }
}

function endedLoginProblem({ account: { id, source } }: Found): ProbeProblem {
  const problem = `the login in ${source} has ended: its issuer does not refresh it`
  return { id, source, problem, hint: logInAgain(id), ended: true }
}

function unavailable(id: string, reason: string): CraikError {
  return new CraikError('unavailable', `the login ${id} has expired and could not be refreshed: ${reason}`, {
    hint: `try again; if that fails, ${logInAgain(id)}`,
    details: { renewal: 'failed' },
  })
}

/** Waits for work that continues when this caller aborts. */
async function orAbort<T>(work: Promise<T>, until: AbortSignal): Promise<T> {
  until.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const release = () => reject(until.reason)
  until.addEventListener('abort', release, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    until.removeEventListener('abort', release)
  }
}
