/** Ports, processes and metrics of a sandbox. */
import type { Boundary } from '../boundary/boundary.ts'
import type { ManagedProcesses } from '../manager-types.ts'
import type { SandboxAccess } from './active-sandbox.ts'
import type { ManagerOptions } from './manager-options.ts'
import { meterDuplex } from './metered-streams.ts'
import { check, failedOperation, observedMeasure, openOperation, requestSidecar } from './operation.ts'
import { putLogins } from './put-logins.ts'

export function createManagedProcesses(options: ManagerOptions, access: SandboxAccess): ManagedProcesses {
  return {
    async mayConnect(caller, id, port) {
      const { session } = await access.require(id)
      await check(options, session, caller, 'forward', { metadata: { port } })
    },

    async connect(caller, id, port) {
      const { session, attached } = await access.require(id)
      const release = session.hold()
      try {
        const operated = await openOperation(options, session, caller, 'forward', { metadata: { port } })
        let boundary: Boundary | undefined
        try {
          boundary = await session.boundary(caller.signal)
          const inner = await boundary.inside.connect(port, caller.signal)
          const detach = attached.add({
            begun: operated.begun,
            action: 'forward',
            end: (denied) => stream.destroy(denied),
          })
          const { stream, bytes } = meterDuplex(inner, (error) => {
            detach()
            release()
            void operated.end({
              status: error === undefined ? 'passed' : 'failed',
              measures: [observedMeasure('bytes_in', bytes.in), observedMeasure('bytes_out', bytes.out)],
            })
          })
          return stream
        } catch (error) {
          await operated.end(failedOperation(error, boundary !== undefined))
          throw error
        }
      } catch (error) {
        release()
        throw error
      }
    },

    async processes(caller, id) {
      const { session } = await access.require(id)
      return requestSidecar(options, session, caller, 'processes', {}, (boundary, until) =>
        boundary.inside.processes(until),
      )
    },

    async signal(caller, id, pid, signal) {
      const { session } = await access.require(id)
      await requestSidecar(
        options,
        session,
        caller,
        'signal',
        { metadata: { pid, signal } },
        (boundary, until) => boundary.inside.signal(pid, signal, until),
      )
    },

    async putLogins(caller, id) {
      return putLogins(options, await access.require(id), caller)
    },

    async stats(caller, id) {
      const { session, record } = await access.require(id)
      return requestSidecar(options, session, caller, 'metrics', {}, async (boundary, until) => {
        const [claimed, seen] = await Promise.all([
          boundary.inside.metrics(until),
          session.instance?.observe() ?? {},
        ])
        const enforced = session.instance?.limits ?? record.place!.enforced
        return { observed: seen, claimed, limits: record.spec.limits, enforced }
      })
    },
  }
}
