/** Open egress connections. Each is decided and has its begin receipt before it is dialled, and gets an end receipt. */
import type { Socket } from 'node:net'
import type { Clock } from '../../lib/clock.ts'
import type { OpenReceipt, ReceiptLog } from '../../receipts/receipt-log.ts'
import type { ReceiptStatus } from '../../receipts/schema.ts'
import type { Home } from '../../store/home.ts'
import type { Store, Tables } from '../../store/store.ts'
import type { GatewayCaller } from '../caller.ts'
import { egressDenials, groundOf } from './egress-denials.ts'
import { type EgressFacts, factsOf, formatRequest, refusingRule } from './egress-facts.ts'
import type { EgressLimits } from './egress-limits.ts'
import { answerUnreachable, type EgressAnswer, egressRefusal, UNRECORDED } from './egress-responses.ts'
import { homeReader, type RuleReader } from './rule-reader.ts'
import { type EgressRequest, fittingRules } from './rules.ts'
import { type CallerFacts, type DecideEgressOutput, decideEgress, refuseEgress } from './tokens.ts'
import { connectUpstream, type Web } from './web.ts'

export interface EgressConnectionOptions {
  readonly store: Store
  readonly log: ReceiptLog
  readonly clock: Clock
  readonly home: Home
  readonly web: Web
  readonly limits: EgressLimits
  /**
   * Returns whether a host renews logins. Egress there is refused despite a grant, unless the sandbox holds the real
   * credentials.
   */
  readonly isTokenEndpoint: (host: string) => Promise<boolean>
  readonly credentials: (caller: GatewayCaller) => 'broker' | 'forward' | 'none'
}

interface EgressConnectionEnd {
  readonly status: Extract<ReceiptStatus, 'passed' | 'failed' | 'blocked'>
  readonly outcome: string
  readonly upBytes: number
  readonly downBytes: number
  /** For a plain request only. */
  readonly httpStatus?: number | undefined
}

export interface EgressConnection {
  readonly socket: Socket
  /** Aborts when its rule or grant is removed, and when Craik stops. */
  readonly until: AbortSignal
  /** Works once. Later calls have no effect. */
  end(end: EgressConnectionEnd): Promise<void>
  /** Refuses a connection that has begun, because of its content. */
  refuse(ground: 'tls'): Promise<EgressAnswer>
}

type Allowed = Extract<DecideEgressOutput, { effect: 'allow' }>

interface Open {
  readonly caller: CallerFacts
  readonly asked: EgressRequest
  readonly allowed: Allowed
  readonly stop: AbortController
}

export class EgressConnections {
  readonly #options: EgressConnectionOptions
  readonly #denials: ReturnType<typeof egressDenials>
  readonly #reader: RuleReader
  readonly #open = new Set<Open>()
  readonly #counts = new Map<string, number>()
  readonly #pending = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()
  #recheck: NodeJS.Timeout | undefined

  constructor(options: EgressConnectionOptions) {
    this.#options = options
    this.#reader = homeReader(options.home)
    this.#denials = egressDenials((caller, facts) => options.store.write(refuseEgress, { caller, facts }))
  }

  /**
   * Returns a connection to the requested host, or the error response for the client. `until` aborts when the client
   * disconnects.
   */
  async open(
    caller: GatewayCaller,
    request: EgressRequest,
    until: AbortSignal,
  ): Promise<EgressConnection | EgressAnswer> {
    const who = factsOfCaller(caller)
    if (this.#closing.signal.aborted) return UNRECORDED
    const key = caller.sandboxId ?? `operator ${caller.operator}`
    const count = this.#counts.get(key) ?? 0
    if (count >= this.#options.limits.connectionsPerCaller) {
      await this.refuse(caller, factsOf('limit', request))
      return egressRefusal(caller, request, 'egress.limit')
    }
    this.#counts.set(key, count + 1)
    const release = once(() => {
      const left = (this.#counts.get(key) ?? 1) - 1
      if (left === 0) this.#counts.delete(key)
      else this.#counts.set(key, left)
    })
    try {
      const connection = await this.#track(this.#connect(caller, who, request, until, release))
      if (!('socket' in connection)) release()
      return connection
    } catch {
      release()
      return UNRECORDED
    }
  }

  /** Records a refusal by egress itself, or counts it. */
  async refuse(caller: GatewayCaller, facts: EgressFacts): Promise<void> {
    const who = factsOfCaller(caller)
    if (!this.#denials.isSingle(who))
      return this.#denials.count(who, facts, groundOf(facts, refusingRule(facts) ?? facts.ground))
    this.#denials.spend(who)
    // A refusal takes effect even if its receipt cannot be written.
    await this.#track(this.#options.store.write(refuseEgress, { caller: who, facts })).catch(() => {})
  }

  /** Refuses new connections and ends the open ones. */
  stop(): void {
    this.#closing.abort()
    clearInterval(this.#recheck)
    for (const { stop } of this.#open) stop.abort()
  }

  /** Resolves after every open connection has ended. */
  async close(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending)
    await this.#denials.close()
  }

  async #connect(
    caller: GatewayCaller,
    who: CallerFacts,
    request: EgressRequest,
    client: AbortSignal,
    release: () => void,
  ): Promise<EgressConnection | EgressAnswer> {
    const decided = await this.#decide(caller, who, request)
    if (decided.effect === 'deny') return egressRefusal(caller, request, decided.rule)
    const startedMs = performance.now()
    const receipt = this.#options.log.openReceipt(decided.ref, decided.begin)
    const stop = new AbortController()
    const until = AbortSignal.any([client, stop.signal])
    const open: Open = { caller: who, asked: request, allowed: decided, stop }
    this.#add(open)
    const forget = once(() => {
      this.#remove(open)
      release()
    })
    const reached = await connectUpstream(this.#options.web, request, this.#options.limits, until)
    if (reached.outcome === 'connected') {
      reached.socket.on('error', () => {})
      const finish = this.#finisher(receipt, startedMs, request, reached.address, forget)
      return {
        socket: reached.socket,
        until: stop.signal,
        end: finish,
        refuse: async (ground) => {
          forget()
          await this.#refuseBegun(who, factsOf(ground, request), decided, receipt)
          return egressRefusal(caller, request, `egress.${ground}`)
        },
      }
    }
    forget()
    if (reached.outcome === 'not_public') {
      const facts: EgressFacts = {
        schema: 'craik.egress_decision/1',
        ground: 'addresses',
        count: 1,
        asked: [formatRequest(request)],
        addresses: [...reached.addresses],
      }
      await this.#refuseBegun(who, facts, decided, receipt)
      return egressRefusal(caller, request, 'egress.not_public')
    }
    const outcome = client.aborted ? 'client_gone' : stop.signal.aborted ? 'ended' : reached.reason
    await this.#finisher(
      receipt,
      startedMs,
      request,
      undefined,
      forget,
    )({
      status: 'failed',
      outcome,
      upBytes: 0,
      downBytes: 0,
    })
    return answerUnreachable(request, reached.status, reached.reason)
  }

  async #decide(
    caller: GatewayCaller,
    who: CallerFacts,
    request: EgressRequest,
  ): Promise<DecideEgressOutput> {
    const { store, log, isTokenEndpoint, credentials } = this.#options
    const isNoted = this.#denials.isSingle(who)
    const decided = await store.write(decideEgress, {
      caller: who,
      asked: request,
      isTokenEndpoint: (await isTokenEndpoint(request.host)) && credentials(caller) !== 'forward',
      isNoted,
      owner: log.owner,
    })
    if (decided.effect === 'deny') {
      if (isNoted) this.#denials.spend(who)
      else if (decided.facts !== undefined)
        this.#denials.count(who, decided.facts, groundOf(decided.facts, decided.rule))
    }
    return decided
  }

  /** Ends the begin receipt as blocked, and adds a denial that names the rule. */
  async #refuseBegun(who: CallerFacts, facts: EgressFacts, { ref, begin }: Allowed, receipt: OpenReceipt) {
    const isNoted = this.#denials.isSingle(who)
    if (isNoted) {
      this.#denials.spend(who)
      await this.#options.store.write(refuseEgress, { caller: who, facts, begun: { ref, begin } })
      return
    }
    const rule = refusingRule(facts) ?? 'egress.not_public'
    this.#denials.count(who, facts, groundOf(facts, rule))
    await receipt.end({ status: 'blocked', metadata: { refused_by: rule } })
  }

  #finisher(
    receipt: OpenReceipt,
    startedMs: number,
    { host, port }: EgressRequest,
    address: string | undefined,
    forget: () => void,
  ): EgressConnection['end'] {
    let isEnded = false
    return async ({ status, outcome, upBytes, downBytes, httpStatus }) => {
      if (isEnded) return
      isEnded = true
      forget()
      const written = receipt.end({
        status,
        measures: [
          { name: 'bytes_up', value: upBytes, source: 'observed' },
          { name: 'bytes_down', value: downBytes, source: 'observed' },
          { name: 'duration_ms', value: Math.round(performance.now() - startedMs), source: 'observed' },
        ],
        metadata: {
          host,
          port,
          outcome,
          ...(address !== undefined && { address }),
          ...(httpStatus !== undefined && { http_status: httpStatus }),
        },
      })
      // The connection is over even if its end cannot be recorded. The log reports a begin without an end.
      await this.#track(written).catch(() => {})
    }
  }

  #add(open: Open): void {
    this.#open.add(open)
    this.#recheck ??= setInterval(() => void this.#holdAgainstRules(), this.#options.limits.recheckMs).unref()
  }

  #remove(open: Open): void {
    this.#open.delete(open)
    if (this.#open.size > 0) return
    clearInterval(this.#recheck)
    this.#recheck = undefined
  }

  /** Ends open connections whose rule or grant was removed. */
  async #holdAgainstRules(): Promise<void> {
    const opened = [...this.#open]
    try {
      await this.#options.store.read(async (tables) => {
        for (const open of opened) if (!(await this.#isAllowedStill(tables, open))) open.stop.abort()
      })
    } catch {
      // The next check tries again. Open connections were allowed when they began.
    }
  }

  async #isAllowedStill(tables: Tables, { caller, asked: request, allowed }: Open): Promise<boolean> {
    const grant = await tables.grants.get(allowed.grantId)
    if (grant === undefined || grant.revokedAtMs !== null) return false
    if (grant.expiresAtMs !== null && this.#options.clock.nowMs() >= grant.expiresAtMs) return false
    const { rules, damaged } = await this.#reader.rulesFor(tables, caller.operator, caller.sandboxId)
    return damaged.length === 0 && fittingRules(rules, request).some(({ id }) => id === allowed.ruleId)
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const settled = work.finally(() => this.#pending.delete(settled))
    this.#pending.add(settled)
    return settled
  }
}

export function isAnswer(value: EgressConnection | EgressAnswer): value is EgressAnswer {
  return 'text' in value
}

function factsOfCaller({ operator, policyEnvelopeId, sandboxId, scope }: GatewayCaller): CallerFacts {
  return { operator, policyEnvelopeId, sandboxId, scope: { ...scope } }
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) work()
    isDone = true
  }
}
