/** Operator logins, agent sessions, runs, their events and handoffs. */
export const agents = `
`
