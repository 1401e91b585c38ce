/** Ways out that are open: each was decided and begun in the log before it was dialled, and ends there. */
import type { Socket } from 'node:net'
import type { Clock } from '../../lib/clock.ts'
import type { OpenReceipt, ReceiptLog } from '../../receipts/log.ts'
import type { ReceiptStatus } from '../../receipts/schema.ts'
import type { Home } from '../../store/home.ts'
import type { Store, Tables } from '../../store/store.ts'
import type { GatewayCaller } from '../caller.ts'
import { answerUnreachable, type EgressAnswer, egressRefusal, UNRECORDED } from './answers.ts'
import { egressDenials, groundOf } from './denials.ts'
import { type EgressFacts, factsOf, formatRequest, refusingRule } from './facts.ts'
import type { EgressLimits } from './limits.ts'
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
  /** Where logins are renewed: refused although granted, but for who holds the credential itself. */
  readonly isTokenEndpoint: (host: string) => Promise<boolean>
  readonly credentials: (caller: GatewayCaller) => 'broker' | 'forward' | 'none'
}

interface PassageEnd {
  readonly status: Extract<ReceiptStatus, 'passed' | 'failed' | 'blocked'>
  readonly outcome: string
  readonly upBytes: number
  readonly downBytes: number
  /** Of a plain request. */
  readonly httpStatus?: number | undefined
}

export interface EgressConnection {
  readonly socket: Socket
  /** Aborts when the leave for it is taken back, and when Craik goes. */
  readonly until: AbortSignal
  /** Once; what comes after it says nothing. */
  end(end: PassageEnd): Promise<void>
  /** It had begun, and egress itself refuses what was found then. */
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

  /** A connection to what was asked for, or what to tell the client. `until` is the client's staying. */
  async open(
    caller: GatewayCaller,
    asked: EgressRequest,
    until: AbortSignal,
  ): Promise<EgressConnection | EgressAnswer> {
    const who = factsOfCaller(caller)
    if (this.#closing.signal.aborted) return UNRECORDED
    const key = caller.sandboxId ?? `operator ${caller.operator}`
    const count = this.#counts.get(key) ?? 0
    if (count >= this.#options.limits.connectionsPerCaller) {
      await this.refuse(caller, factsOf('limit', asked))
      return egressRefusal(caller, asked, 'egress.limit')
    }
    this.#counts.set(key, count + 1)
    const leave = once(() => {
      const left = (this.#counts.get(key) ?? 1) - 1
      if (left === 0) this.#counts.delete(key)
      else this.#counts.set(key, left)
    })
    try {
      const passage = await this.#track(this.#connect(caller, who, asked, until, leave))
      if (!('socket' in passage)) leave()
      return passage
    } catch {
      leave()
      return UNRECORDED
    }
  }

  /** Writes a refusal of egress's own down, or counts it. */
  async refuse(caller: GatewayCaller, facts: EgressFacts): Promise<void> {
    const who = factsOfCaller(caller)
    if (!this.#denials.isSingle(who))
      return this.#denials.count(who, facts, groundOf(facts, refusingRule(facts) ?? facts.ground))
    this.#denials.spend(who)
    // A refusal needs no receipt to hold.
    await this.#track(this.#options.store.write(refuseEgress, { caller: who, facts })).catch(() => {})
  }

  /** Opens no more, and ends what is open. */
  stop(): void {
    this.#closing.abort()
    clearInterval(this.#recheck)
    for (const { stop } of this.#open) stop.abort()
  }

  /** After everything that was open has ended. */
  async close(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending)
    await this.#denials.close()
  }

  async #connect(
    caller: GatewayCaller,
    who: CallerFacts,
    asked: EgressRequest,
    client: AbortSignal,
    leave: () => void,
  ): Promise<EgressConnection | EgressAnswer> {
    const decided = await this.#decide(caller, who, asked)
    if (decided.effect === 'deny') return egressRefusal(caller, asked, decided.rule)
    const startedMs = performance.now()
    const receipt = this.#options.log.opened(decided.ref, decided.begin)
    const stop = new AbortController()
    const until = AbortSignal.any([client, stop.signal])
    const open: Open = { caller: who, asked, allowed: decided, stop }
    this.#add(open)
    const forget = once(() => {
      this.#remove(open)
      leave()
    })
    const reached = await connectUpstream(this.#options.web, asked, this.#options.limits, until)
    if (reached.outcome === 'connected') {
      reached.socket.on('error', () => {})
      const finish = this.#finisher(receipt, startedMs, asked, reached.address, forget)
      return {
        socket: reached.socket,
        until: stop.signal,
        end: finish,
        refuse: async (ground) => {
          forget()
          await this.#refuseBegun(who, factsOf(ground, asked), decided, receipt)
          return egressRefusal(caller, asked, `egress.${ground}`)
        },
      }
    }
    forget()
    if (reached.outcome === 'not_public') {
      const facts: EgressFacts = {
        schema: 'craik.egress_decision/1',
        ground: 'addresses',
        count: 1,
        asked: [formatRequest(asked)],
        addresses: [...reached.addresses],
      }
      await this.#refuseBegun(who, facts, decided, receipt)
      return egressRefusal(caller, asked, 'egress.not_public')
    }
    const outcome = client.aborted ? 'client_gone' : stop.signal.aborted ? 'ended' : reached.reason
    await this.#finisher(
      receipt,
      startedMs,
      asked,
      undefined,
      forget,
    )({
      status: 'failed',
      outcome,
      upBytes: 0,
      downBytes: 0,
    })
    return answerUnreachable(asked, reached.status, reached.reason)
  }

  async #decide(caller: GatewayCaller, who: CallerFacts, asked: EgressRequest): Promise<DecideEgressOutput> {
    const { store, log, isTokenEndpoint, credentials } = this.#options
    const isNoted = this.#denials.isSingle(who)
    const decided = await store.write(decideEgress, {
      caller: who,
      asked,
      isTokenEndpoint: (await isTokenEndpoint(asked.host)) && credentials(caller) !== 'forward',
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

  /** The begin ends as blocked, with a denial beside it that says by which rule. */
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
      // It is over whether or not its end is on record; the log names a begin without one.
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

  /** Taking a leave back reaches what is open under it. */
  async #holdAgainstRules(): Promise<void> {
    const opened = [...this.#open]
    try {
      await this.#options.store.read(async (tables) => {
        for (const open of opened) if (!(await this.#isAllowedStill(tables, open))) open.stop.abort()
      })
    } catch {
      // Looked at again the next time; what is open was allowed.
    }
  }

  async #isAllowedStill(tables: Tables, { caller, asked, allowed }: Open): Promise<boolean> {
    const grant = await tables.grants.get(allowed.grantId)
    if (grant === undefined || grant.revokedAtMs !== null) return false
    if (grant.expiresAtMs !== null && this.#options.clock.nowMs() >= grant.expiresAtMs) return false
    const { rules, damaged } = await this.#reader.rulesFor(tables, caller.operator, caller.sandboxId)
    return damaged.length === 0 && fittingRules(rules, asked).some(({ id }) => id === allowed.ruleId)
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
