/** Ports, processes and figures of a sandbox. */
import type { Boundary } from '../boundary/boundary.ts'
import type { ManagedInside } from '../manager-types.ts'
import type { SandboxHold } from './active-sandbox.ts'
import { ask, check, failure, observed, open } from './operation.ts'
import type { ManagerOptions } from './options.ts'
import { putLogins } from './put-logins.ts'
import { meteredDuplex } from './streams.ts'

export function managedInside(options: ManagerOptions, holding: SandboxHold): ManagedInside {
  return {
    async mayConnect(caller, id, port) {
      const { session } = await holding.require(id)
      await check(options, session, caller, 'forward', { metadata: { port } })
    },

    async connect(caller, id, port) {
      const { session, attached } = await holding.require(id)
      const release = session.hold()
      try {
        const operated = await open(options, session, caller, 'forward', { metadata: { port } })
        let boundary: Boundary | undefined
        try {
          boundary = await session.boundary(caller.signal)
          const inner = await boundary.inside.connect(port, caller.signal)
          const detach = attached.add({
            begun: operated.begun,
            action: 'forward',
            end: (denied) => stream.destroy(denied),
          })
          const { stream, bytes } = meteredDuplex(inner, (error) => {
            detach()
            release()
            void operated.end({
              status: error === undefined ? 'passed' : 'failed',
              measures: [observed('bytes_in', bytes.in), observed('bytes_out', bytes.out)],
            })
          })
          return stream
        } catch (error) {
          await operated.end(failure(error, boundary !== undefined))
          throw error
        }
      } catch (error) {
        release()
        throw error
      }
    },

    async processes(caller, id) {
      const { session } = await holding.require(id)
      return ask(options, session, caller, 'processes', {}, (boundary, until) =>
        boundary.inside.processes(until),
      )
    },

    async signal(caller, id, pid, signal) {
      const { session } = await holding.require(id)
      await ask(options, session, caller, 'signal', { metadata: { pid, signal } }, (boundary, until) =>
        boundary.inside.signal(pid, signal, until),
      )
    },

    async putLogins(caller, id) {
      return putLogins(options, await holding.require(id), caller)
    },

    async stats(caller, id) {
      const { session, record } = await holding.require(id)
      return ask(options, session, caller, 'metrics', {}, async (boundary, until) => {
        const [claimed, seen] = await Promise.all([
          boundary.inside.metrics(until),
          session.place?.observe() ?? {},
        ])
        const enforced = session.place?.limits ?? record.place!.enforced
        return { observed: seen, claimed, limits: record.spec.limits, enforced }
      })
    },
  }
}
